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

use lastword_api::Code;

use crate::args::Verb;
use crate::client::Client;
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
