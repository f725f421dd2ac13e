//! `worker`: runs a worker of a fleet in the foreground.

mod enroll;

use clap::Subcommand;
use lastword_api::{Code, JobsFate};

use super::{daemon, runtime};
use lastword_proc::User;

use crate::daemon::run as service;
use crate::failure::{Failure, Outcome};
use crate::fleet::enrolment::{Enrolment, path};
use crate::fleet::worker::Worker;
use crate::paths::Paths;
use crate::text::duration;
use crate::ui::Ui;

/// Run a worker of a fleet, which takes jobs from a server
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "The worker has a state folder of its own (LASTWORD_HOME), with its enrolment. When it stops, its jobs keep running, and the \
                       next worker in the same folder takes them over if it starts before its lease is over (15 s); after that they are ended."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How many jobs to run at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    slots: u32,
    /// Use this server only, which must be one of the enrolment; can be repeated
    #[arg(long, value_name = "HOST:PORT")]
    server: Vec<String>,
    /// Run jobs as this user, who cannot read the token of the worker; the worker must be root
    #[arg(long, value_name = "USER")]
    job_user: Option<String>,
    /// How long jobs may run without a word from a server
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms, default_value = "15s", hide = true)]
    lease: u64,
    /// Setting for this worker, such as output.tail=1M; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Enroll(enroll::Args),
    /// Stop the worker; its jobs keep running, and the next worker here takes them over if it starts before the lease is over (15 s)
    Stop,
    /// Take no more jobs, and stop when those that were started have ended
    Drain,
}

pub(crate) fn run(args: Args, ui: Ui) -> Outcome {
    let paths = Paths::find()?;
    match args.verb {
        None => {}
        Some(Verb::Enroll(args)) => return enroll::run(&args, ui),
        Some(Verb::Stop) => return stop(&paths, ui, JobsFate::Keep),
        Some(Verb::Drain) => return stop(&paths, ui, JobsFate::Finish),
    }
    let enrolment = Enrolment::load(&paths.state)?.ok_or_else(|| {
        let text = format!("this worker is not enrolled: {} is missing", path(&paths.state).display());
        Failure::new(Code::NotFound, text)
            .next("lastword fleet add NAME    # on the server's host; it prints what to run here")
    })?;
    let enrolment = chosen(enrolment, &args.server)?;
    let user = args.job_user.as_deref().map(job_user).transpose()?;
    let worker = Worker { enrolment, slots: args.slots, user, lease_ms: args.lease };
    service::run(&worker, &paths, &args.set, false)
}

/// Returns the user that jobs run as.
fn job_user(name: &str) -> Result<User, Failure> {
    if !rustix::process::geteuid().is_root() {
        let text = "--job-user: only a worker that runs as root can start jobs as another user";
        return Err(Failure::usage(text));
    }
    User::find(name)
        .ok_or_else(|| Failure::usage(format!("--job-user: there is no user {name} in /etc/passwd")))
}

/// Stops the worker of this folder.
fn stop(paths: &Paths, ui: Ui, jobs: JobsFate) -> Outcome {
    runtime::block_on(async {
        let stopped = daemon::stop(paths, &ui, jobs).await?;
        match ui.json {
            true => ui.print_json(&serde_json::json!({ "stopped": stopped }))?,
            false if stopped => {}
            false => ui.say("no worker is running"),
        }
        Ok(0)
    })
}

/// Returns the enrolment with these servers only; with all of them if none is named.
fn chosen(mut enrolment: Enrolment, named: &[String]) -> Result<Enrolment, Failure> {
    let plain = |text: &String| text.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let named: Vec<String> = named.iter().map(plain).collect();
    if let Some(unknown) =
        named.iter().find(|name| !enrolment.servers.iter().any(|server| server.address == **name))
    {
        let text = format!("this worker is not enrolled at {unknown}");
        return Err(Failure::usage(text)
            .next("lastword worker enroll --server HOST:PORT --fingerprint SHA256    # adds a server"));
    }
    if !named.is_empty() {
        enrolment.servers.retain(|server| named.contains(&server.address));
    }
    Ok(enrolment)
}
