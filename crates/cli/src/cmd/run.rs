//! `run`: asks for a job, and stays with it unless told otherwise.

pub(super) mod agent;

use std::collections::BTreeMap;
use std::path::PathBuf;

use lastword_api::{After, Io, IoKind, Job, Ladder, Limits, Needs, Retry, Submit, Time};
use lastword_core::{JobId, Timestamp};

use super::attach::{self, Stay};
use super::worktree;
use crate::client::{Call, Client, random};
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::settings::Settings;
use crate::text::{duration, moment, size};
use crate::ui::words;

/// Runs a command or a coding agent as a job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Stays with the job until it ends: passes its output on, and exits as it did. Ctrl-C lets go of it and leaves it running."
)]
pub(crate) struct Args {
    /// Lets go of the job at once and prints its id
    #[arg(short, long)]
    detach: bool,
    /// Passes standard input on to the job
    #[arg(short, long, conflicts_with = "terminal")]
    interactive: bool,
    /// Gives the job a terminal; Ctrl-P Ctrl-Q lets go
    #[arg(short, long)]
    terminal: bool,
    /// A name for the job
    #[arg(long)]
    name: Option<String>,
    /// The group whose slots it uses
    #[arg(short, long)]
    group: Option<String>,
    /// Higher goes first
    #[arg(
        long,
        default_value_t = 0,
        allow_negative_numbers = true,
        hide_default_value = true,
        value_name = "N"
    )]
    priority: i16,
    /// A label, to find it by
    #[arg(short, long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Waits for a job to succeed, or to end at all
    #[arg(long, value_name = "JOB[:any]", value_parser = after)]
    after: Vec<After>,
    /// Ends it after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    wall: Option<u64>,
    /// Ends it when it has written nothing for this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    stall: Option<u64>,
    /// Ends it when it has written this much
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    output_max: Option<u64>,
    /// At a limit of output, turns, tokens or money: makes it hold still, and ends it only if nobody raises the limit within this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    ask_at_limit: Option<u64>,
    /// Tries again when it fails, so many times at most
    #[arg(long, value_name = "TIMES", default_value_t = 0, hide_default_value = true)]
    retry: u32,
    /// Pause before the next try; it doubles each time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    backoff: Option<u64>,
    /// Also tries again when nobody can say how it ended
    #[arg(long, requires = "retry")]
    retry_when_lost: bool,
    /// Does not start it before this time has passed
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    delay: Option<u64>,
    /// Time between TERM and KILL when it is stopped
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    grace: Option<u64>,
    /// The folder it runs in
    #[arg(short = 'C', long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
    /// Runs it in a git worktree of its own, on a branch of its own; what it changes waits for `apply`. `keep` keeps the worktree even
    /// if nothing was changed in it
    #[arg(long, value_name = "RULE", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    worktree: Option<Rule>,
    /// Cancels the job on Ctrl-C
    #[arg(long, conflicts_with = "detach")]
    cancel_on_interrupt: bool,
    /// The command and its arguments
    #[arg(required_unless_present = "agent", trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    agent: agent::Asked,
}

/// When a worktree goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Rule {
    /// After the end of the job, if nothing was changed in it
    Auto,
    /// Never
    Keep,
}

/// Reads a label.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a label is written NAME=VALUE")?;
    if name.is_empty() {
        Err("a label has a name: NAME=VALUE".to_owned())
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}

fn after(text: &str) -> Result<After, String> {
    let (job, on) = match text.rsplit_once(':') {
        Some((job, "success")) => (job, Needs::Success),
        Some((job, "any")) => (job, Needs::Any),
        Some((_, other)) => return Err(format!("`{other}` is neither `success` nor `any`")),
        None => (text, Needs::Success),
    };
    Ok(After { job: job.to_owned(), on })
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let submit = args.submit(&client)?;
    let asked = super::ask_for_job(&client, |attributes| {
        Ok(Call::post("/v1/jobs", &Submit { attributes, ..submit.clone() }))
    });
    let job = asked.await.map_err(|failure| args.agent.explain(failure))?;
    if args.detach {
        return print_started(&client, &job);
    }
    let stay = Stay {
        input: args.interactive || args.terminal,
        cancel_on_interrupt: args.cancel_on_interrupt,
        from: [0, 0],
    };
    let id = job.id.clone();
    let code = attach::stay(&client, job, stay).await?;
    if args.worktree.is_some() && !client.ui().json {
        worktree::say_changes(&client, &id).await;
    }
    Ok(code)
}

/// Prints what a program needs to go on with the job: its id.
pub(super) fn print_started(client: &Client, job: &Job) -> Outcome {
    match client.ui().json {
        true => client.ui().print_json(job)?,
        false => client.ui().print(&job.id)?,
    }
    Ok(0)
}

impl Args {
    fn submit(&self, client: &Client) -> Result<Submit, Failure> {
        let ui = client.ui();
        let settings = Settings::load(&Paths::find()?.config, &environment::settings(), &[])?;
        let id = JobId::new(0, Timestamp(moment::now_ms()), random()?);
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        let cwd = self.folder()?;
        let worktree = self.worktree.map(|rule| worktree::wish(&cwd, rule == Rule::Keep, ui)).transpose()?;
        let agent = self.agent.wish(&self.command)?;
        Ok(Submit {
            id: Some(id.to_string()),
            name: self.name.clone(),
            argv: if agent.is_some() { Vec::new() } else { self.command.clone() },
            agent,
            cwd,
            worktree,
            env: super::environment_of_job(ui),
            attributes: None,
            group: self.group.clone(),
            priority: self.priority,
            labels,
            limits: Limits {
                wall_ms: self.wall,
                stall_ms: self.stall,
                output_bytes: self.output_max,
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
        let usual = Retry::default();
        let backoff_ms = self.backoff.unwrap_or(usual.backoff_ms);
        Retry {
            attempts: self.retry.saturating_add(1),
            backoff_ms,
            backoff_max_ms: usual.backoff_max_ms.max(backoff_ms),
            when_lost: self.retry_when_lost,
        }
    }

    fn io(&self) -> Io {
        let kind = match (self.interactive, self.terminal) {
            (true, _) => IoKind::Pipe,
            (_, true) => IoKind::Terminal,
            _ => return Io::default(),
        };
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0);
        let size = size.filter(|_| self.terminal).map(|size| (size.ws_row, size.ws_col));
        let (rows, columns) = size.or(self.terminal.then_some((24, 80))).unzip();
        Io { kind, rows, columns }
    }

    /// Returns the folder the job runs in, as a path that means the same everywhere.
    fn folder(&self) -> Result<String, Failure> {
        let named = self.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let folder = std::fs::canonicalize(&named)
            .map_err(|error| Failure::usage(format!("the job cannot run in {}: {error}", named.display())))?;
        if !folder.is_dir() {
            return Err(Failure::usage(format!(
                "the job cannot run in {}: it is no folder",
                named.display()
            )));
        }
        folder.into_os_string().into_string().map_err(|folder| {
            Failure::usage(format!("the folder {} has a name that is not UTF-8", folder.to_string_lossy()))
        })
    }
}

/// Says how to come back to a job that goes on.
pub(super) fn say_it_goes_on(client: &Client, job: &Job) {
    let called = words::called(job.name.as_deref(), &job.short);
    let reference = words::reference(job);
    client.ui().say(&format!("{called} goes on; `lastword attach {reference}` comes back to it"));
}
