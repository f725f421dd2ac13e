//! Hints: a wake-up after a commit. The rows are the truth; a hint says that it is worth reading them.
//!
//! Hints are coalesced: many commits may wake once. A hint may get lost, and a journal need not give any for commits of other
//! processes, so a waiting reader also polls now and then.

use tokio::sync::watch;

/// Wakes one waiter after commits.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<u64>);

impl Hints {
    /// Waits for a commit after the last one this waiter was woken for; `false` once the journal is closed.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// Gives the hints of one journal.
#[derive(Debug)]
pub struct Bell(watch::Sender<u64>);

impl Default for Bell {
    fn default() -> Bell {
        Bell(watch::Sender::new(0))
    }
}

impl Bell {
    /// Wakes every waiter.
    pub fn ring(&self) {
        self.0.send_modify(|commits| *commits = commits.wrapping_add(1));
    }

    /// Returns a waiter for commits from here on.
    pub fn hints(&self) -> Hints {
        Hints(self.0.subscribe())
    }
}
