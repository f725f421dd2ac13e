//! Hints: a wake-up after a commit. The rows are the truth; a hint only says that looking is worth it.
//!
//! Hints are coalesced: many commits may come as one. They reach this process only, and a journal that was written to
//! by another process gives none, so a waiting reader also polls now and then.

use tokio::sync::watch;

/// Wakes one waiter after commits.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<u64>);

impl Hints {
    /// Waits for a commit later than the last one this waiter was told of; `false` once the journal is closed.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// Gives the hints of one journal.
#[derive(Debug)]
pub(crate) struct Bell(watch::Sender<u64>);

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell(watch::Sender::new(0))
    }

    /// Wakes every waiter.
    pub(crate) fn ring(&self) {
        self.0.send_modify(|commits| *commits = commits.wrapping_add(1));
    }

    /// Returns a waiter that is told of commits from here on.
    pub(crate) fn hints(&self) -> Hints {
        Hints(self.0.subscribe())
    }
}
