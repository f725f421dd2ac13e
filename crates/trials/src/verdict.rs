//! The answer of a trial, with a bug seeded or without: a checker that cannot fail has shown nothing.

use crate::args::Args;

/// Returns the bug to seed, which must be one of `known`.
pub(crate) fn bug<'a>(args: &Args<'a>, known: &[&str]) -> Result<Option<&'a str>, String> {
    match args.text("--bug") {
        Some(bug) if !known.contains(&bug) => {
            Err(format!("there is no bug `{bug}`; there are {}", known.join(", ")))
        }
        bug => Ok(bug),
    }
}

/// Turns what a checker found into the answer of a verb: with a bug seeded, it must have found something.
pub(crate) fn verdict(bug: Option<&str>, found: Result<(), String>) -> bool {
    match (bug, found) {
        (None, Ok(())) => true,
        (None, Err(why)) => {
            eprintln!("FAILED: {why}");
            false
        }
        (Some(bug), Err(why)) => {
            println!("the seeded bug `{bug}` was caught: {why}");
            true
        }
        (Some(bug), Ok(())) => {
            eprintln!("FAILED: the seeded bug `{bug}` was not caught");
            false
        }
    }
}
