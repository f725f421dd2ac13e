//! What went wrong, what to do about it, and the code to exit with.

use lastword_api::{Code, Problem};

use crate::text::clean::{clean, cut};

/// Exit codes of our own.
pub(crate) mod exit {
    /// The job did not complete.
    pub(crate) const JOB: u8 = 1;
    /// The command line does not read.
    pub(crate) const USAGE: u8 = 2;
    /// The job was cancelled.
    pub(crate) const CANCELLED: u8 = 3;
    /// Time ran out: the job's, or that of the wait.
    pub(crate) const TIME: u8 = 124;
    /// Our own error.
    pub(crate) const OURS: u8 = 125;
    /// The command is there and cannot be executed.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// There is no such command.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Ended by a signal: its number is added.
    pub(crate) const SIGNAL: u8 = 128;
    /// What a shell reports for a writer whose reader is gone.
    pub(crate) const PIPE: u8 = SIGNAL + 13;
    /// What a shell reports for a program that was interrupted.
    pub(crate) const INTERRUPTED: u8 = SIGNAL + 2;
}

/// What a verb comes to: a code to exit with, or a failure to be told.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a verb came to nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code to exit with.
    pub(crate) code: u8,
    /// What happened; with `--json` it is printed as it is.
    pub(crate) problem: Box<Problem>,
    /// What to do next, a line each.
    pub(crate) next: Vec<String>,
}

impl Failure {
    /// Returns a failure of our own.
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure::of(Problem::new(code, text))
    }

    /// Returns what a daemon answered.
    pub(crate) fn of(problem: Problem) -> Failure {
        Failure { code: exit::OURS, problem: Box::new(problem), next: Vec::new() }
    }

    /// Returns what a daemon answered to what was asked on the command line: what cannot be asked for is a slip of the hand.
    pub(crate) fn answered(problem: Problem) -> Failure {
        let code = if problem.code == Code::Invalid { exit::USAGE } else { exit::OURS };
        Failure { code, ..Failure::of(problem) }
    }

    /// Returns a failure of the command line.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { code: exit::USAGE, ..Failure::new(Code::Invalid, text) }
    }

    /// Adds what to do next.
    pub(crate) fn next(mut self, line: impl Into<String>) -> Failure {
        self.next.push(line.into());
        self
    }

    /// Reports whether the reader of our output is gone, which is nobody's fault.
    pub(crate) fn is_quiet(&self) -> bool {
        self.code == exit::PIPE
    }

    /// Returns the failure in words, with nothing in it that acts on a terminal.
    pub(crate) fn words(&self) -> String {
        let mut text = clean(&self.problem.detail).into_owned();
        for candidate in &self.problem.candidates {
            let name = candidate.name.as_deref().unwrap_or("");
            let line = format!("{}  {:<9}  {name}  {}", candidate.short, candidate.phase, candidate.title);
            text.push_str(&format!("\n  {}", cut(&clean(&line), 76)));
        }
        for line in &self.next {
            text.push_str(&format!("\n  {}", clean(line)));
        }
        text
    }
}

impl From<std::io::Error> for Failure {
    /// Takes an error of our own output: everything else is named where it happens.
    fn from(error: std::io::Error) -> Failure {
        let failure = Failure::new(Code::Unavailable, format!("cannot write the output: {error}"));
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure { code: exit::PIPE, ..failure },
            _ => failure,
        }
    }
}

impl From<crate::settings::Bad> for Failure {
    fn from(bad: crate::settings::Bad) -> Failure {
        Failure::new(Code::Invalid, bad.to_string())
    }
}
