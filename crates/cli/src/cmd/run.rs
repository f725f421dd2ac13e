//! `run`: submits a job, and follows it unless told otherwise.

mod agent;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lastword_api::{After, Io, IoKind, Job, Ladder, Limits, Needs, Retry, Submit, Time};
use lastword_client::jobs;
use lastword_core::limits::Limit;
use lastword_core::{JobId, Timestamp};

use super::attach::{self, Stay};
use super::{job_env, prompt, submit, which, worktree};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::profile::{self, Profile, Worktree};
use crate::random::random;
use crate::settings::Settings;
use crate::text::{duration, moment, size};

/// The headings of options.
const START: &str = "When it starts";
const PLACE: &str = "Where it runs";
const LIMITS: &str = "Limits";
const RETRIES: &str = "Retries";

/// Run a command or coding agent as a job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Follows the job until it ends: prints its output and exits with its exit code. Ctrl-C detaches and leaves the job running. If the reader of its output goes away, as in `| head`, the job is stopped and the exit code is 141. With --json, prints {\"type\": \"job\", \"job\"}, then a document for each line of output as `logs` does, then the job again; with -d, only the job."
)]
pub(crate) struct Args {
    /// Start the job in the background and print its id
    #[arg(short, long)]
    detach: bool,
    /// Forward standard input to the job
    #[arg(short, long, conflicts_with = "terminal")]
    interactive: bool,
    /// Give the job a terminal; Ctrl-P Ctrl-Q detaches
    #[arg(short, long)]
    terminal: bool,
    /// Cancel the job on Ctrl-C
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// Name of the job
    #[arg(long)]
    name: Option<String>,
    /// Label to find the job by; can be repeated
    #[arg(short, long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Group whose slots the job uses
    #[arg(short, long, help_heading = START)]
    group: Option<String>,
    /// Label that the worker of the job must have; can be repeated. Only workers of a fleet have any
    #[arg(long, help_heading = START, value_name = "LABEL")]
    on: Vec<String>,
    /// Jobs with a higher priority start first
    #[arg(
        help_heading = START,
        long,
        default_value_t = 0,
        allow_negative_numbers = true,
        hide_default_value = true,
        value_name = "N"
    )]
    priority: i16,
    /// Start after this job has succeeded; with `:any`, after it has ended in any way
    #[arg(long, help_heading = START, value_name = "JOB[:any]", value_parser = after)]
    after: Vec<After>,
    /// Wait this long before starting the job
    #[arg(long, help_heading = START, value_name = "TIME", value_parser = duration::parse_ms)]
    delay: Option<u64>,
    /// Folder to run in; on a fleet, one of the worker
    #[arg(short = 'C', long, help_heading = PLACE, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
    /// Run in a new git worktree on its own branch; `apply` brings the changes to your checkout. With `keep`, the worktree stays even if
    /// nothing was changed; with `none`, there is none, whatever the profile says
    #[arg(long, help_heading = PLACE, value_name = "RULE", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    worktree: Option<Rule>,
    /// Refuse to start unless this variable is set. The job has your environment anyway; on a fleet, only these variables, from its worker.
    /// Can be repeated
    #[arg(long, help_heading = PLACE, value_name = "NAME", value_parser = job_env::name)]
    env: Vec<String>,
    /// Add the variables of a file to the job's environment: lines of NAME=VALUE
    #[arg(long, help_heading = PLACE, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    env_file: Vec<PathBuf>,
    /// Use this profile of yours instead of the repository's; `none` uses neither
    #[arg(long, help_heading = PLACE, value_name = "NAME")]
    profile: Option<String>,
    /// Stop the job after this time
    #[arg(long, help_heading = LIMITS, value_name = "TIME", value_parser = duration::parse_ms)]
    wall: Option<u64>,
    /// Stop the job when it has written nothing for this time
    #[arg(long, help_heading = LIMITS, value_name = "TIME", value_parser = duration::parse_ms)]
    stall: Option<u64>,
    /// Stop the job when it has written this much
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", value_parser = size::parse)]
    output_max: Option<u64>,
    /// At a limit on output, turns, tokens or money, pause the job and stop it only if the limit is not raised within this time
    #[arg(long, help_heading = LIMITS, value_name = "TIME", value_parser = duration::parse_ms)]
    ask_at_limit: Option<u64>,
    /// Time between TERM and KILL when the job is stopped
    #[arg(long, help_heading = LIMITS, value_name = "TIME", value_parser = duration::parse_ms)]
    grace: Option<u64>,
    /// Retry up to this many times if the job fails
    #[arg(long, help_heading = RETRIES, value_name = "TIMES", default_value_t = 0, hide_default_value = true)]
    retry: u32,
    /// Pause before the first retry; doubles with each retry
    #[arg(long, help_heading = RETRIES, value_name = "TIME", value_parser = duration::parse_ms)]
    backoff: Option<u64>,
    /// Also retry if it is unknown how the job ended
    #[arg(long, help_heading = RETRIES, requires = "retry")]
    retry_when_lost: bool,
    /// From inside another job: let this one outlive that one, instead of ending with it
    #[arg(long, help_heading = START)]
    keep: bool,
    /// Command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    agent: agent::AgentArgs,
}

/// When to remove the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Rule {
    /// After the job has ended, if nothing was changed
    Auto,
    /// Never
    Keep,
    /// There is no worktree
    None,
}

/// Parses a label.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a label as NAME=VALUE")?;
    if name.is_empty() {
        Err("the label has no name; write NAME=VALUE".to_owned())
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}

fn after(text: &str) -> Result<After, String> {
    let (job, on) = match text.rsplit_once(':') {
        Some((job, "success")) => (job, Needs::Success),
        Some((job, "any")) => (job, Needs::Any),
        Some((_, other)) => return Err(format!("`{other}` must be `success` or `any`")),
        None => (text, Needs::Success),
    };
    Ok(After { job: which::reference(job)?, on })
}

pub(crate) async fn run(
    mut args: Args,
    client: Client,
    settings: Settings,
    program: fn() -> clap::Command,
) -> Outcome {
    let cwd = args.folder(&client)?;
    let folder = (!client.is_fleet()).then(|| Path::new(&cwd));
    args.fill(profile::choose(args.profile.as_deref(), folder, &Paths::find()?, client.ui())?);
    args.check()?;
    let submit = args.submit(cwd, &client, &settings)?;
    if submit.agent.is_some() {
        prompt::say_options(client.ui(), program(), "run", &args.command);
    }
    let result =
        submit::submit(&client, |attributes| Ok(jobs::submit(&Submit { attributes, ..submit.clone() })));
    let job = result.await.map_err(|failure| args.agent.explain(failure))?;
    if args.detach {
        return print_started(&client, &job);
    }
    let stay = Stay {
        input: args.interactive || args.terminal,
        cancel_on_interrupt: args.cancel_on_interrupt,
        is_starter: true,
        from: [0, 0],
    };
    let id = job.id.clone();
    let code = attach::stay(&client, job, stay).await?;
    if submit.worktree.is_some() && !client.ui().json {
        worktree::print_changes(&client, &id).await;
    }
    Ok(code)
}

/// Prints the id of a job that was started in the background.
pub(super) fn print_started(client: &Client, job: &Job) -> Outcome {
    let ui = client.ui();
    let printed = match ui.json {
        true => ui.print_json(job),
        false => ui.print(&job.id),
    };
    if let Some(parent) = job.parent.as_ref().filter(|_| job.tied) {
        let parent = parent.get(parent.len().saturating_sub(8)..).unwrap_or(parent);
        ui.say(&format!("tied to {parent}: ends with it (--keep to detach)"));
    }
    // A caller that gets no id must not take it for a job that was not started.
    if printed.is_err() {
        ui.say(&format!("lastword: {} was started, but that could not be printed", job.id));
    }
    printed.map(|()| 0)
}

impl Args {
    /// Takes from a profile what the command line leaves open.
    fn fill(&mut self, profile: Profile) {
        self.agent.fill(&profile, self.interactive || self.terminal);
        self.wall = self.wall.or(profile.limit(Limit::Wall));
        self.stall = self.stall.or(profile.limit(Limit::Stall));
        self.output_max = self.output_max.or(profile.limit(Limit::Output));
        self.worktree = self.worktree.or(profile.worktree.map(|worktree| match worktree {
            Worktree::No => Rule::None,
            Worktree::Yes => Rule::Auto,
            Worktree::Keep => Rule::Keep,
        }));
        self.group = self.group.take().or(profile.group);
        // Of labels with the same name, the last one counts.
        self.labels.splice(..0, profile.labels);
        self.env.extend(profile.env);
    }

    /// Checks what depends on whether the job is an agent. Call it after [`Args::fill`].
    fn check(&self) -> Result<(), Failure> {
        if self.agent.agent.is_none() && self.command.is_empty() {
            return Err(Failure::usage("the command is missing: write it after the options"));
        }
        self.agent.check()
    }

    fn submit(&self, cwd: String, client: &Client, settings: &Settings) -> Result<Submit, Failure> {
        let ui = client.ui();
        // Others are the daemon's to apply.
        let limit = |name: &str| settings.number_in_environment(name);
        let id = JobId::new(0, Timestamp(moment::now_ms()), random()?);
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        let worktree = match self.worktree {
            None | Some(Rule::None) => None,
            Some(_) if client.is_fleet() => {
                return Err(Failure::usage(
                    "--worktree: a server of a fleet does not make worktrees on its workers yet",
                ));
            }
            Some(rule) => Some(worktree::request(&cwd, rule == Rule::Keep, ui)?),
        };
        let agent = self.agent.request(&self.command)?;
        // Its jobs run on other hosts, which have environments and folders of their own.
        let is_fleet = client.is_fleet();
        if is_fleet && !self.env_file.is_empty() {
            let text =
                "--env-file: a server of a fleet passes on no values; --env names variables of the worker";
            return Err(Failure::usage(text));
        }
        Ok(Submit {
            keep: self.keep,
            id: Some(id.to_string()),
            name: self.name.clone(),
            argv: if agent.is_some() { Vec::new() } else { self.command.clone() },
            agent,
            cwd,
            worktree,
            variables: if is_fleet { self.env.clone() } else { Vec::new() },
            env: if is_fleet { BTreeMap::new() } else { job_env::chosen(ui, &self.env, &self.env_file)? },
            attributes: None,
            group: self.group.clone(),
            priority: self.priority,
            labels,
            on: self.on.clone(),
            limits: Limits {
                wall_ms: self.wall.or_else(|| limit("limits.wall")),
                turn_ms: self.agent.turn,
                active_ms: self.agent.active,
                handshake_ms: self.agent.handshake,
                idle_ms: self.agent.idle_ms(),
                stall_ms: self.stall.or_else(|| limit("limits.stall")),
                output_bytes: self.output_max.or_else(|| limit("limits.output")),
                turns: self.agent.turns,
                tokens: self.agent.tokens,
                money_micros: self.agent.money,
            },
            ask_at_limit_ms: self.ask_at_limit,
            retry: self.retries(),
            ladder: Ladder {
                term_ms: self.grace.unwrap_or_else(|| settings.number("grace")),
                ..Ladder::default()
            },
            after: self.after.clone(),
            not_before: self.delay.map(|ms| Time(moment::now_ms().saturating_add(ms))),
            io: self.io(),
        })
    }

    fn retries(&self) -> Retry {
        let default = Retry::default();
        let backoff_ms = self.backoff.unwrap_or(default.backoff_ms);
        Retry {
            attempts: self.retry.saturating_add(1),
            backoff_ms,
            backoff_max_ms: default.backoff_max_ms.max(backoff_ms),
            when_lost: self.retry_when_lost,
        }
    }

    fn io(&self) -> Io {
        let kind = match (self.interactive, self.terminal) {
            (true, _) => IoKind::Pipe,
            (_, true) => IoKind::Terminal,
            _ => return Io::default(),
        };
        let size = || attach::size::own_size().map_or((24, 80), |size| (size.rows, size.columns));
        let (rows, columns) = self.terminal.then(size).unzip();
        Io { kind, rows, columns }
    }

    /// Returns the absolute path of the folder to run in.
    fn folder(&self, client: &Client) -> Result<String, Failure> {
        // A folder of the worker's host, or a new one.
        if client.is_fleet() {
            let named = self.cwd.clone().unwrap_or_default();
            if named.is_relative() && self.cwd.is_some() {
                let text = format!("cannot run in {}: it names no folder of a worker", named.display());
                return Err(Failure::usage(text).next("give the whole path that it has there"));
            }
            let named = named.into_os_string();
            return named.into_string().map_err(|_| Failure::usage("the path of the folder is not UTF-8"));
        }
        let named = self.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let folder = std::fs::canonicalize(&named)
            .map_err(|error| Failure::usage(format!("cannot run in {}: {error}", named.display())))?;
        if !folder.is_dir() {
            return Err(Failure::usage(format!("cannot run in {}: it is not a folder", named.display())));
        }
        folder.into_os_string().into_string().map_err(|folder| {
            Failure::usage(format!("the path of the folder {} is not UTF-8", folder.to_string_lossy()))
        })
    }
}
