//! The command line: global flags, the list of commands, and what each runs. The arguments of a command are in its own file.

use std::future::Future;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::client::Client;
use crate::cmd::{self, runtime};
use crate::failure::{Failure, Outcome};
use crate::help;
use crate::lock;
use crate::paths::Paths;
use crate::settings::Settings;
use crate::ui::{Colour, Ui};

/// Run commands and coding agents as durable background jobs
#[derive(Debug, Parser)]
#[command(
    name = "lastword",
    version = lastword_api::VERSION,
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "Jobs keep running when this program exits, your terminal closes or the daemon crashes. Every job ends exactly once, \
                  with a receipt that proves that nothing of it is left running. The daemon starts automatically.\n\n\
                  JOB is an id, its beginning or its short form (its end), a name, or @last.\n\
                  Exit codes: 0 success, 1 failure, 2 usage error, 3 cancelled, 124 timed out, 125 error in lastword",
    max_term_width = help::WIDTH_MAX
)]
pub(crate) struct Cli {
    /// Print JSON; streams print one document per line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// When to use colour: auto, always or never
    #[arg(
        long, global = true, help_heading = GLOBAL, value_name = "WHEN", default_value = "auto",
        hide_default_value = true, hide_possible_values = true
    )]
    pub(crate) color: Colour,
    /// Never prompt; confirmations count as no
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_input: bool,
    /// Print help
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The heading of the flags that every command has.
const GLOBAL: &str = "Global options";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Box<cmd::run::Args>),
    #[command(aliases = ["ps", "list"])]
    Ls(cmd::ls::Args),
    #[command(aliases = ["inspect", "status"])]
    Show(cmd::show::Args),
    Logs(cmd::logs::Args),
    Events(cmd::events::Args),
    Wait(cmd::wait::Args),
    Attach(cmd::attach::Args),
    Send(cmd::send::Args),
    Question(cmd::question::Args),
    Answer(cmd::answer::Args),
    Approve(cmd::answer::Approve),
    Deny(cmd::answer::Deny),
    Rule(cmd::rule::Args),
    Interrupt(cmd::interrupt::Args),
    #[command(alias = "stop")]
    Cancel(cmd::cancel::Args),
    /// Kill jobs at once: same as cancel --force
    #[command(
        after_help = "Sends KILL to every process of a job. A job that has already ended is not changed."
    )]
    Kill(cmd::cancel::Args),
    Retry(cmd::retry::Args),
    Resume(cmd::resume::Args),
    Conversation(cmd::conversation::Args),
    Diff(cmd::diff::Args),
    Apply(cmd::apply::Args),
    Limit(cmd::limit::Args),
    Label(cmd::label::Args),
    Progress(cmd::progress::Args),
    Group(cmd::group::Args),
    Usage(cmd::usage::Args),
    Rm(cmd::rm::Args),
    Prune(cmd::prune::Args),
    Result(cmd::result::Args),
    Seen(cmd::seen::Args),
    Abandon(cmd::abandon::Args),
    Daemon(cmd::daemon::Args),
    Serve(cmd::serve::Args),
    Worker(cmd::worker::Args),
    Fleet(cmd::fleet::Args),
    Doctor(cmd::doctor::Args),
    Config(cmd::config::Args),
    Trust(cmd::trust::Args),
    Prices(cmd::prices::Args),
    Help(cmd::help::Args),
    Completion(cmd::completion::Args),
    Man(cmd::man::Args),
    Version(cmd::version::Args),
}

/// Returns the program as clap knows it.
pub(crate) fn program() -> clap::Command {
    help::grouped(Cli::command())
}

/// Parses the command line.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&program().try_get_matches()?)
}

/// Runs a command.
pub(crate) fn run(verb: Verb, ui: Ui) -> Outcome {
    match verb {
        Verb::Run(args) => {
            with_settings(ui, |client, settings| cmd::run::run(*args, client, settings, program))
        }
        Verb::Ls(args) => with_client(ui, |client| cmd::ls::run(args, client)),
        Verb::Show(args) => with_client(ui, |client| cmd::show::run(args, client)),
        Verb::Logs(args) => with_client(ui, |client| cmd::logs::run(args, client)),
        Verb::Events(args) => with_client(ui, |client| cmd::events::run(args, client)),
        Verb::Wait(args) => with_client(ui, |client| cmd::wait::run(args, client)),
        Verb::Attach(args) => with_client(ui, |client| cmd::attach::run(args, client)),
        Verb::Send(args) => with_client(ui, |client| cmd::send::run(args, client)),
        Verb::Question(args) => with_client(ui, |client| cmd::question::run(args, client)),
        Verb::Answer(args) => with_client(ui, |client| cmd::answer::run(args, client)),
        Verb::Approve(args) => with_client(ui, |client| cmd::answer::approve(args, client)),
        Verb::Deny(args) => with_client(ui, |client| cmd::answer::deny(args, client)),
        Verb::Rule(args) => with_client(ui, |client| cmd::rule::run(args, client)),
        Verb::Interrupt(args) => with_client(ui, |client| cmd::interrupt::run(args, client)),
        Verb::Cancel(args) => with_any_settings(ui, |client| cmd::cancel::run(args, client)),
        Verb::Kill(args) => with_any_settings(ui, |client| cmd::cancel::run(args.forced(), client)),
        Verb::Retry(args) => with_settings(ui, |client, settings| cmd::retry::run(args, client, settings)),
        Verb::Resume(args) => {
            with_settings(ui, |client, settings| cmd::resume::run(args, client, settings, program))
        }
        Verb::Conversation(args) => with_client(ui, |client| cmd::conversation::run(args, client)),
        Verb::Diff(args) => with_client(ui, |client| cmd::diff::run(args, client)),
        Verb::Apply(args) => with_client(ui, |client| cmd::apply::run(args, client)),
        Verb::Limit(args) => with_client(ui, |client| cmd::limit::run(args, client)),
        Verb::Label(args) => with_client(ui, |client| cmd::label::run(args, client)),
        Verb::Progress(args) => with_client(ui, |client| cmd::progress::run(args, client)),
        Verb::Group(args) => with_client(ui, |client| cmd::group::run(args, client)),
        Verb::Usage(args) => with_client(ui, |client| cmd::usage::run(args, client)),
        Verb::Rm(args) => with_client(ui, |client| cmd::rm::run(args, client)),
        Verb::Prune(args) => with_client(ui, |client| cmd::prune::run(args, client)),
        Verb::Result(args) => with_client(ui, |client| cmd::result::run(args, client)),
        Verb::Seen(args) => with_client(ui, |client| cmd::seen::run(args, client)),
        Verb::Abandon(args) => with_client(ui, |client| cmd::abandon::run(args, client)),
        Verb::Daemon(args) => cmd::daemon::run(args, ui),
        Verb::Serve(args) => cmd::serve::run(args),
        Verb::Worker(args) => cmd::worker::run(args, ui),
        Verb::Fleet(args) => with_client(ui, |client| cmd::fleet::run(args, client)),
        Verb::Doctor(args) => cmd::doctor::run(args, ui),
        Verb::Config(args) => cmd::config::run(args, &ui),
        Verb::Trust(args) => cmd::trust::run(&args, &ui),
        Verb::Prices(args) => cmd::prices::run(&args, &ui),
        Verb::Completion(_) | Verb::Man(_) if ui.json => {
            Err(Failure::usage("it prints a script or a page, which is no JSON: leave out --json"))
        }
        Verb::Completion(args) => cmd::completion::run(&args, &ui),
        Verb::Help(args) => cmd::help::run(&args, program()),
        Verb::Man(args) => cmd::man::run(&args, program()),
        Verb::Version(args) => cmd::version::run(&args, &ui),
    }
}

/// Runs a command that talks to the daemon.
fn with_client<F: Future<Output = Outcome>>(ui: Ui, command: impl FnOnce(Client) -> F) -> Outcome {
    with_settings(ui, |client, _| command(client))
}

/// Runs a command that talks to the daemon and submits jobs. Settings are applied or reported, never ignored.
fn with_settings<F: Future<Output = Outcome>>(
    ui: Ui,
    command: impl FnOnce(Client, Settings) -> F,
) -> Outcome {
    let paths = Paths::find()?;
    let settings = Settings::of_process(&paths, &[])?;
    ui.say_not_in_force(&settings, &lock::settings_in_force(&paths));
    runtime::block_on(command(Client::new(paths, ui), settings))
}

/// Runs a command that stops jobs, even if a setting is invalid.
fn with_any_settings<F: Future<Output = Outcome>>(ui: Ui, command: impl FnOnce(Client) -> F) -> Outcome {
    let paths = Paths::find()?;
    if let Err(failure) = Settings::of_process(&paths, &[]) {
        ui.report(&failure);
    }
    runtime::block_on(command(Client::new(paths, ui)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Command;

    use super::*;
    use crate::help::{GROUPS, NAME_COLUMNS};

    #[test]
    fn every_command_is_in_one_group_and_fits_a_line() {
        let program = Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let known: BTreeSet<&str> =
            program.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(grouped.len(), known.len(), "none is in two groups");
        for verb in program.get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(verb.get_name().len() <= NAME_COLUMNS, "{}", verb.get_name());
            assert!(!about.is_empty() && about.chars().count() <= 80 - NAME_COLUMNS - 4, "{about}");
        }
    }
}
