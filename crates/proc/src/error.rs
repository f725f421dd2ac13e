//! Errors on the daemon's side, grouped by what the caller can do.

use std::io;
use std::path::PathBuf;

use lastword_core::receipt::Process;

/// Why an operation on an attempt or its keeper failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was started, and nothing will be.
    #[error("nothing was started: {0}")]
    Refused(String),
    /// The keeper died before it answered. `locate` finds out whether anything was started.
    #[error("the keeper died before it answered; {0} says whether anything was started")]
    Unclear(PathBuf),
    /// The nursery exited. A new one can be started; running trees do not need it.
    #[error("the nursery is gone: {0}")]
    NurseryGone(String),
    /// No keeper answers; `locate` finds out why.
    #[error("no keeper answers in {0}")]
    NoKeeper(PathBuf),
    /// A newer owner controls this tree.
    #[error("the keeper refused: {0}")]
    Stale(String),
    /// The keeper refused the request.
    #[error("the keeper refused ({code}): {message}")]
    Declined {
        /// A short code such as `full`.
        code: String,
        /// The reason, for people.
        message: String,
    },
    /// Processes of a dead keeper do not die, so the attempt has not ended. Another `locate` tries again.
    #[error("{} processes of {} cannot be killed, the first is {:?}", processes.len(), dir.display(), processes.first())]
    Stuck {
        /// The attempt's folder.
        dir: PathBuf,
        /// The processes, up to the number that a record names.
        processes: Vec<Process>,
    },
    /// An I/O error.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that wraps an I/O error with the failed operation.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
