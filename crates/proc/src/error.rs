//! What can go wrong on the daemon's side, by what the caller can do.

use std::io;
use std::path::PathBuf;

use lastword_core::receipt::Process;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was started, and nothing will be.
    #[error("nothing was started: {0}")]
    Refused(String),
    /// Nobody knows: the keeper died before it answered. Locate tells.
    #[error("the keeper died before it answered; what became of the launch is in {0}")]
    Unclear(PathBuf),
    /// The nursery is gone. A new one can be started; trees that run do not need it.
    #[error("the nursery is gone: {0}")]
    NurseryGone(String),
    /// There is no keeper to speak to: locate tells why.
    #[error("no keeper answers in {0}")]
    NoKeeper(PathBuf),
    /// A newer owner speaks to this tree.
    #[error("the keeper refused: {0}")]
    Stale(String),
    /// The keeper would not do it.
    #[error("the keeper refused ({code}): {words}")]
    Declined {
        /// Its code.
        code: String,
        /// Its words.
        words: String,
    },
    /// What a dead keeper left cannot be killed: the attempt has not ended. Looking again tries again.
    #[error("{} processes of {} cannot be killed, the first is {:?}", processes.len(), dir.display(), processes.first())]
    Stuck {
        /// The attempt's folder.
        dir: PathBuf,
        /// Who they are.
        processes: Vec<Process>,
    },
    /// The folder or the system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it came to.
        source: io::Error,
    },
}

impl Error {
    /// Returns a closure that says what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
