//! Errors as the user sees them: what happened, what to do next, and the exit code.

use lastword_api::{Code, Problem};

use crate::text::clean::{clean, cut};

/// Our exit codes.
pub(crate) mod exit {
    /// The job failed.
    pub(crate) const JOB: u8 = 1;
    /// The command line is invalid.
    pub(crate) const USAGE: u8 = 2;
    /// The job was cancelled.
    pub(crate) const CANCELLED: u8 = 3;
    /// The job timed out, or the wait did.
    pub(crate) const TIME: u8 = 124;
    /// An error of lastword itself.
    pub(crate) const OURS: u8 = 125;
    /// The command exists but cannot be executed.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command was not found.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Killed by a signal, whose number is added.
    pub(crate) const SIGNAL: u8 = 128;
    /// What a shell reports for a writer whose reader is gone (SIGPIPE).
    pub(crate) const PIPE: u8 = SIGNAL + 13;
    /// What a shell reports for an interrupted program (SIGINT).
    pub(crate) const INTERRUPTED: u8 = SIGNAL + 2;
}

/// The result of a command: its exit code, or an error to report.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// What happened; with `--json` it is printed as it is.
    pub(crate) problem: Box<Problem>,
    /// What to do next, one line each.
    pub(crate) next: Vec<String>,
}

impl Failure {
    /// Returns an error of our own.
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure::of(Problem::new(code, text))
    }

    /// Returns an error that the daemon answered.
    pub(crate) fn of(problem: Problem) -> Failure {
        Failure { code: exit::OURS, problem: Box::new(problem), next: Vec::new() }
    }

    /// Returns an error that the daemon answered to a request from the command line; an invalid request is a usage error.
    pub(crate) fn answered(problem: Problem) -> Failure {
        let code = if problem.code == Code::Invalid { exit::USAGE } else { exit::OURS };
        Failure { code, ..Failure::of(problem) }
    }

    /// Returns a usage error.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { code: exit::USAGE, ..Failure::new(Code::Invalid, text) }
    }

    /// Adds what to do next.
    pub(crate) fn next(mut self, line: impl Into<String>) -> Failure {
        self.next.push(line.into());
        self
    }

    /// Reports whether the reader of our output is gone, which is not worth a message.
    pub(crate) fn is_quiet(&self) -> bool {
        self.code == exit::PIPE
    }

    /// Returns the error as text that is safe for a terminal.
    pub(crate) fn text(&self) -> String {
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

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem.detail)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    /// Wraps an error of writing our output; all other I/O errors are wrapped where they occur.
    fn from(error: std::io::Error) -> Failure {
        let failure = Failure::new(Code::Unavailable, format!("cannot write the output: {error}"));
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure { code: exit::PIPE, ..failure },
            _ => failure,
        }
    }
}

impl From<crate::settings::SettingsError> for Failure {
    fn from(error: crate::settings::SettingsError) -> Failure {
        Failure::new(Code::Invalid, error.to_string())
    }
}
