//! Why git could not do it, in words for whoever asked.

use std::io;
use std::time::Duration;

/// Why something of git came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no git.
    #[error("git is not installed, or not in PATH")]
    NoGit,
    /// The repository is not there.
    #[error("the repository {} is gone", .0.display())]
    Gone(std::path::PathBuf),
    /// It took too long, and was ended.
    #[error("`git {verb}` did not come to an end in {} seconds", .after.as_secs())]
    TooSlow {
        /// What it was to do.
        verb: String,
        /// How long it had.
        after: Duration,
    },
    /// It said no.
    #[error("`git {verb}` failed: {said}")]
    Failed {
        /// What it was to do.
        verb: String,
        /// What it said, in one line.
        said: String,
    },
    /// It said something that this build cannot read.
    #[error("`git {verb}` said something that cannot be read")]
    Unreadable {
        /// What it was to do.
        verb: String,
    },
    /// Somebody else is at work on it: it may be tried again.
    #[error("a git that an earlier daemon started is still at work on its worktree")]
    Busy,
    /// A file of ours could not be written, read or removed.
    #[error("{what}: {source}")]
    Disk {
        /// What was tried.
        what: String,
        /// What it came to.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that says what was tried when a disk failed.
    pub(crate) fn disk(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Disk { what: what.into(), source }
    }
}
