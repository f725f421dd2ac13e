//! Errors of this crate. Their messages are shown to the user as they are.

use std::io;
use std::time::Duration;

/// Why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `git` executable was not found.
    #[error("git is not installed, or not in PATH")]
    NoGit,
    /// The repository's folder does not exist any more.
    #[error("the repository {} is gone", .0.display())]
    Gone(std::path::PathBuf),
    /// Git ran into its time limit and was killed.
    #[error("`git {verb}` did not finish within {} seconds", .after.as_secs())]
    TooSlow {
        /// The git command, such as `worktree add`.
        verb: String,
        /// The time limit.
        after: Duration,
    },
    /// Git exited with an error.
    #[error("`git {verb}` failed: {message}")]
    Failed {
        /// The git command.
        verb: String,
        /// What git wrote to stderr, as one line.
        message: String,
    },
    /// Git printed something that this version of lastword cannot parse.
    #[error("cannot parse the output of `git {verb}`")]
    Unreadable {
        /// The git command.
        verb: String,
    },
    /// Another process holds the worktree's lock; a later attempt may succeed.
    #[error("a git process started by an earlier daemon is still working on this worktree")]
    Busy,
    /// A file of ours could not be read, written or removed.
    #[error("{what}: {source}")]
    Disk {
        /// The failed operation.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that wraps an I/O error with the failed operation.
    pub(crate) fn disk(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Disk { what: what.into(), source }
    }
}
