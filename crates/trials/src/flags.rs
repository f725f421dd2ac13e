//! Flags of the verbs: `--name value`, and `--name` alone. Few and for ourselves, so without a library.

use std::str::FromStr;

/// The words after a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags<'a>(pub(crate) &'a [&'a str]);

impl<'a> Flags<'a> {
    /// Returns the text after `--name`.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|word| *word == name)?;
        self.0.get(at + 1).copied()
    }

    /// Returns the value after `--name`, or `default` if the flag is not there.
    pub(crate) fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} {text}: not a value")),
        }
    }

    /// Reports whether `--name` is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// Returns the bug to seed, which must be one of `known`.
    pub(crate) fn bug(&self, known: &[&str]) -> Result<Option<&'a str>, String> {
        match self.text("--bug") {
            Some(bug) if !known.contains(&bug) => {
                Err(format!("there is no bug `{bug}`; there are {}", known.join(", ")))
            }
            bug => Ok(bug),
        }
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
