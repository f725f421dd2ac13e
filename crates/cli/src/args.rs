//! The command line: flags that every verb has, and the list of verbs. What a verb takes is in its own file.

use clap::{Parser, Subcommand};

use crate::cmd;
use crate::ui::Colour;

/// Runs commands and coding agents as durable jobs and tells the truth about them
#[derive(Debug, Parser)]
#[command(
    name = "lastword",
    version = lastword_api::VERSION,
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "A job goes on when this program, the terminal or the daemon goes. It has one ending, with a \
                  receipt that says why nothing of it is left. The daemon starts by itself.\n\n\
                  A JOB is an id, the beginning of one, a name, or @last.\n\
                  Exit codes: 0 done, 1 failed, 2 usage, 3 cancelled, 124 out of time, 125 our error",
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Prints data as JSON; a stream a line at a time
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// Uses colour: auto, always or never
    #[arg(
        long, global = true, help_heading = EVERYWHERE, value_name = "WHEN", default_value = "auto",
        hide_default_value = true, hide_possible_values = true
    )]
    pub(crate) color: Colour,
    /// Never asks, and takes no for an answer
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) no_input: bool,
    /// Prints help
    #[arg(short, long, global = true, help_heading = EVERYWHERE, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
    /// Prints the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Under what the flags stand that every verb has.
const EVERYWHERE: &str = "Everywhere";

/// What can be asked for.
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
    Answer(cmd::answer::Args),
    Approve(cmd::answer::Approve),
    Deny(cmd::answer::Deny),
    Interrupt(cmd::interrupt::Args),
    #[command(alias = "stop")]
    Cancel(cmd::cancel::Args),
    /// Ends jobs with KILL at once: cancel --force
    Kill(cmd::cancel::Args),
    Retry(cmd::retry::Args),
    Resume(cmd::resume::Args),
    Diff(cmd::diff::Args),
    Apply(cmd::apply::Args),
    Limit(cmd::limit::Args),
    Group(cmd::group::Args),
    Rm(cmd::rm::Args),
    Prune(cmd::prune::Args),
    Result(cmd::result::Args),
    Abandon(cmd::abandon::Args),
    Daemon(cmd::daemon::Args),
    Doctor(cmd::doctor::Args),
    Config(cmd::config::Args),
    Completion(cmd::completion::Args),
    Man(cmd::man::Args),
    Version(cmd::version::Args),
}
