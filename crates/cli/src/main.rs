//! The executable. It decides first whether to run as a keeper: keepers are forked from that process, and inherit everything it touched
//! by then.
//!
//! Tests: `tests/`. The folders `engine` and `api` there, and the files about keepers, test those crates through this executable.

mod args;
mod client;
mod cmd;
mod daemon;
mod doctor;
mod environment;
mod failure;
#[allow(dead_code, reason = "the commands of a worker come next")]
mod fleet;
mod help;
mod in_force;
mod lock;
mod paths;
mod profile;
mod random;
mod settings;
mod text;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == lastword_proc::KEEPER_VERB) {
        return lastword_proc::keeper::run();
    }
    ExitCode::from(run_cli())
}

/// Runs anything but a keeper. Not inlined into `main`, so that nothing is set up before the keeper is chosen.
#[inline(never)]
fn run_cli() -> u8 {
    cmd::completion::complete_if_requested(args::program);
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error),
    };
    let ui = ui::Ui::new(cli.json, cli.color, cli.no_input);
    match args::run(cli.verb, ui) {
        Ok(code) => code,
        Err(failure) => {
            ui.report(&failure);
            failure.code
        }
    }
}

/// Prints help, or what is wrong with the command line.
fn print_usage(error: &clap::Error) -> u8 {
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if error.use_stderr() && json {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let failure = failure::Failure::usage(first.strip_prefix("error: ").unwrap_or(first));
        ui::Ui::new(true, ui::Colour::Never, true).report(&failure);
    } else {
        // Help goes to stdout. That its reader may be gone is not an error.
        let _ = error.print();
    }
    error.exit_code() as u8
}
