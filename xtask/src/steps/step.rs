//! A step: one row of a table, and how it is run.

use crate::program::{Failure, cargo, itself, status};
use crate::tools;

/// Steps that run one after the other.
pub(crate) type Lane = &'static [Step];

/// One thing to run, under a name that `--only` takes.
pub(crate) struct Step {
    pub(super) name: &'static str,
    work: Work,
}

/// What a step runs.
enum Work {
    /// A verb of this program, with its arguments.
    Verb(&'static str),
    /// A verb of cargo, with its arguments.
    Cargo(&'static str),
    Own(fn() -> Result<Done, Failure>),
}

/// How a step ended that did not fail.
pub(crate) enum Done {
    Passed,
    Skipped(&'static str),
}

/// Returns a step that runs a verb of this program.
pub(crate) const fn verb(name: &'static str, line: &'static str) -> Step {
    Step { name, work: Work::Verb(line) }
}

/// Returns a step that runs a verb of cargo.
pub(crate) const fn by_cargo(name: &'static str, line: &'static str) -> Step {
    Step { name, work: Work::Cargo(line) }
}

/// Returns a step that runs a function.
pub(crate) const fn own(name: &'static str, run: fn() -> Result<Done, Failure>) -> Step {
    Step { name, work: Work::Own(run) }
}

impl Step {
    pub(super) fn run(&self) -> Result<Done, Failure> {
        match &self.work {
            Work::Verb(line) => {
                status(&self.line(), itself(&line.split_whitespace().collect::<Vec<_>>()))?;
            }
            Work::Cargo(line) => {
                tools::need(line.split(' ').next().unwrap_or_default())?;
                cargo(line)?;
            }
            Work::Own(run) => return run(),
        }
        Ok(Done::Passed)
    }

    /// Returns the command that runs the same by hand.
    pub(super) fn line(&self) -> String {
        match &self.work {
            Work::Verb(line) => format!("cargo xtask {line}"),
            Work::Cargo(line) => format!("cargo {line}"),
            Work::Own(_) => String::new(),
        }
    }
}
