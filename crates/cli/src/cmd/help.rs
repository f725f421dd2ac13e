//! `help`: prints help, as `--help` does.

use crate::failure::{Failure, Outcome};
use crate::text::similar;

/// Print help of a command, or this list
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command to explain, such as `run` or `daemon restart`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args, program: clap::Command) -> Outcome {
    find(program, &args.words)?.print_help()?;
    Ok(0)
}

/// Returns the command that these words name; the program itself if there are none.
pub(super) fn find(mut program: clap::Command, words: &[String]) -> Result<clap::Command, Failure> {
    program.build();
    words.iter().try_fold(program, |command, word| {
        command.find_subcommand(word).cloned().ok_or_else(|| {
            let failure = Failure::usage(format!("there is no command `{word}`"));
            match similar::nearest(word, command.get_subcommands().map(clap::Command::get_name)) {
                Some(near) => failure.next(format!("did you mean `{near}`?")),
                None => failure.next("lastword --help    # shows every command"),
            }
        })
    })
}
