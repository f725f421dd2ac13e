//! The results of the steps so far, and the table at the end.

use std::time::Instant;

use super::step::{Done, Step};
use crate::program::{Failure, Outcome, spent_by_children};

/// Whether a failure stops the run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AfterFailure {
    Stop,
    GoOn,
}

/// The results so far.
pub(super) struct Report {
    pub(super) after: AfterFailure,
    pub(super) lines: Vec<String>,
    pub(super) failures: Vec<Failure>,
}

impl Report {
    pub(super) fn in_turn(&mut self, steps: &[&Step]) {
        for step in steps {
            match self.goes_on() {
                true => self.run(step),
                false => self.lines.push(not_run(step)),
            }
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.after == AfterFailure::GoOn || self.failures.is_empty()
    }

    /// Runs a step at the terminal.
    fn run(&mut self, step: &Step) {
        eprintln!("\n── {} ──", step.name);
        let (begin, spent) = (Instant::now(), spent_by_children());
        let done = step.run();
        let verdict = match &done {
            Ok(Done::Passed) => "ok".to_owned(),
            Ok(Done::Skipped(why)) => format!("SKIPPED: {why}"),
            Err(_) => "FAILED".to_owned(),
        };
        let (took, spent) = (begin.elapsed(), spent_by_children().saturating_sub(spent));
        let (took, spent) = (took.as_secs_f64(), spent.as_secs_f64());
        self.lines.push(format!("{:<22} {took:>7.1} s {spent:>7.1} CPU s  {verdict}", step.name));
        if let Err(failure) = done {
            self.failures.push(Failure { why: format!("{}: {}", step.name, failure.why), ..failure });
        }
    }

    pub(super) fn end(self) -> Outcome {
        println!("\n{}", self.lines.join("\n"));
        let Some(first) = self.failures.first() else { return Ok(()) };
        let all: Vec<&str> = self.failures.iter().map(|failure| failure.why.as_str()).collect();
        Err(Failure { code: first.code, why: all.join("\n") })
    }
}

pub(super) fn not_run(step: &Step) -> String {
    format!("{:<22} {:>23}  not run", step.name, "")
}
