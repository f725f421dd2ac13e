//! Verbs, one to a file: what it takes, what it does, what it says.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod apply;
pub(crate) mod attach;
pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod group;
pub(crate) mod interrupt;
pub(crate) mod limit;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod prune;
pub(crate) mod result;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod version;
pub(crate) mod wait;
mod worktree;

use std::future::Future;

use lastword_api::{Attributes, Code, Job, ResourceLimit};

use crate::args::Verb;
use crate::client::{Call, Client};
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::Ui;

/// Does what was asked for.
pub(crate) fn run(verb: Verb, ui: Ui) -> Outcome {
    match verb {
        Verb::Run(args) => talk(ui, |client| run::run(*args, client)),
        Verb::Ls(args) => talk(ui, |client| ls::run(args, client)),
        Verb::Show(args) => talk(ui, |client| show::run(args, client)),
        Verb::Logs(args) => talk(ui, |client| logs::run(args, client)),
        Verb::Events(args) => talk(ui, |client| events::run(args, client)),
        Verb::Wait(args) => talk(ui, |client| wait::run(args, client)),
        Verb::Attach(args) => talk(ui, |client| attach::run(args, client)),
        Verb::Send(args) => talk(ui, |client| send::run(args, client)),
        Verb::Answer(args) => talk(ui, |client| answer::run(args, client)),
        Verb::Approve(args) => talk(ui, |client| answer::run(args.answer(), client)),
        Verb::Deny(args) => talk(ui, |client| answer::run(args.answer(), client)),
        Verb::Interrupt(args) => talk(ui, |client| interrupt::run(args, client)),
        Verb::Cancel(args) => talk(ui, |client| cancel::run(args, client)),
        Verb::Kill(args) => talk(ui, |client| cancel::run(args.forced(), client)),
        Verb::Retry(args) => talk(ui, |client| retry::run(args, client)),
        Verb::Resume(args) => talk(ui, |client| resume::run(args, client)),
        Verb::Diff(args) => talk(ui, |client| diff::run(args, client)),
        Verb::Apply(args) => talk(ui, |client| apply::run(args, client)),
        Verb::Limit(args) => talk(ui, |client| limit::run(args, client)),
        Verb::Group(args) => talk(ui, |client| group::run(args, client)),
        Verb::Rm(args) => talk(ui, |client| rm::run(args, client)),
        Verb::Prune(args) => talk(ui, |client| prune::run(args, client)),
        Verb::Result(args) => talk(ui, |client| result::run(args, client)),
        Verb::Abandon(args) => talk(ui, |client| abandon::run(args, client)),
        Verb::Daemon(args) => daemon::run(args, ui),
        Verb::Doctor(args) => doctor::run(args, ui),
        Verb::Config(args) => config::run(args, &ui),
        Verb::Completion(args) => completion::run(&args, &ui),
        Verb::Man(args) => man::run(&args, &ui),
        Verb::Version(args) => version::run(&args, &ui),
    }
}

/// Runs a verb that speaks to the daemon.
fn talk<F: Future<Output = Outcome>>(ui: Ui, verb: impl FnOnce(Client) -> F) -> Outcome {
    let paths = Paths::find()?;
    on_one_thread(verb(Client::new(paths, ui)))
}

/// Runs to the end of a future on this thread.
fn on_one_thread(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Code::Unavailable, format!("cannot start: {error}")))?;
    let done = runtime.block_on(work);
    // A read of the terminal cannot be called back; the process ends without it.
    runtime.shutdown_background();
    done
}

/// Asks for a job that inherits this process's umask, resource limits and nice value. A daemon of version 0.1.0 does not know
/// them and refuses the request; it is asked again without.
async fn ask_for_job(
    client: &Client,
    call: impl Fn(Option<Attributes>) -> Result<Call, Failure>,
) -> Result<Job, Failure> {
    match client.call(call(Some(attributes_of_job()))?).await {
        Err(failure) if failure.problem.code == Code::Invalid => {
            let job = client.call(call(None)?).await?;
            client.ui().say(
                "lastword: the daemon is older than this command: the job does not have your umask, limits and nice value",
            );
            Ok(job)
        }
        asked => asked,
    }
}

/// Returns umask, resource limits and nice value of this process.
fn attributes_of_job() -> Attributes {
    let own = lastword_proc::Attributes::own();
    let limit = |limit: &lastword_proc::ResourceLimit| {
        (limit.name().to_owned(), ResourceLimit { soft: limit.soft(), hard: limit.hard() })
    };
    Attributes { umask: Some(own.umask), nice: own.nice, limits: own.limits.iter().map(limit).collect() }
}

/// The environment a job is given: this one, as far as it is text.
fn environment_of_job(ui: &Ui) -> std::collections::BTreeMap<String, String> {
    let mut left_out = 0;
    let text = crate::environment::all().into_iter().filter_map(|(name, value)| {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => Some((name, value)),
            _ => {
                left_out += 1;
                None
            }
        }
    });
    let env = text.collect();
    if left_out > 0 {
        ui.say(&format!("lastword: {left_out} variables are not UTF-8, and the job does not get them"));
    }
    env
}
