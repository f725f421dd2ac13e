//! The one executable. What keeps a process tree is chosen here, before anything else of the program starts: keepers are
//! forked from it, and what it touched by then is in each of them.

mod args;
mod client;
mod cmd;
mod daemon;
mod doctor;
mod environment;
mod failure;
mod lock;
mod paths;
mod settings;
mod text;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == lastword_proc::KEEPER_VERB) {
        return lastword_proc::keeper::run();
    }
    ExitCode::from(for_people())
}

/// Everything that is not a keeper. Apart from `main`, so that nothing of it is set up before the keeper is chosen.
#[inline(never)]
fn for_people() -> u8 {
    use clap::Parser as _;
    cmd::completion::answer();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return tell_usage(&told),
    };
    let ui = ui::Ui::new(cli.json, cli.color, cli.no_input);
    match cmd::run(cli.verb, ui) {
        Ok(code) => code,
        Err(failure) => {
            ui.tell(&failure);
            failure.code
        }
    }
}

/// Prints help, or what is wrong with the command line.
fn tell_usage(told: &clap::Error) -> u8 {
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if told.use_stderr() && json {
        let text = told.to_string();
        let first = text.lines().next().unwrap_or_default();
        let failure = failure::Failure::usage(first.strip_prefix("error: ").unwrap_or(first));
        ui::Ui::new(true, ui::Colour::Never, true).tell(&failure);
    } else {
        // Help goes to standard output and is no failure; a reader that is gone is none either.
        let _ = told.print();
    }
    told.exit_code() as u8
}
