//! Hints: wake-ups. The rows are the truth; a hint says that it is worth reading them.
//!
//! Commits are coalesced: many may wake once. A hint may get lost, and a journal need not give any for commits of other processes, so a
//! waiting reader also polls now and then.

use lastword_core::JobId;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};

/// Hints about one thing that a waiter may lag behind. Beyond that it is told to look at everything.
const LAG_MAX: usize = 1_024;

/// What is worth looking at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Anything: something was committed, or hints were lost.
    Commit,
    /// A job: it is held here and others wrote to it, or it has ended.
    News(JobId),
    /// A group: it may have a job that can be claimed.
    Ready(String),
}

/// Wakes one waiter.
#[derive(Debug)]
pub struct Hints {
    commits: watch::Receiver<u64>,
    told: broadcast::Receiver<Hint>,
}

impl Hints {
    /// Waits for a hint after the last one that this waiter was given; `None` once the journal is closed.
    pub async fn next(&mut self) -> Option<Hint> {
        tokio::select! {
            biased;
            told = self.told.recv() => match told {
                Ok(hint) => Some(hint),
                Err(RecvError::Lagged(_)) => Some(Hint::Commit),
                // A commit just before that still counts.
                Err(RecvError::Closed) => self.commits.changed().await.is_ok().then_some(Hint::Commit),
            },
            changed = self.commits.changed() => changed.is_ok().then_some(Hint::Commit),
        }
    }

    /// Reports whether there was a hint since the last one that this waiter was given, without waiting for one.
    pub fn has_any(&mut self) -> bool {
        let is_told = !matches!(self.told.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed));
        // Those that follow are about the same look.
        while self.told.try_recv().is_ok() {}
        let is_committed = self.commits.has_changed().unwrap_or(false);
        self.commits.mark_unchanged();
        is_told || is_committed
    }
}

/// Gives the hints of one journal.
#[derive(Debug)]
pub struct Bell {
    commits: watch::Sender<u64>,
    told: broadcast::Sender<Hint>,
}

impl Default for Bell {
    fn default() -> Bell {
        Bell { commits: watch::Sender::new(0), told: broadcast::Sender::new(LAG_MAX) }
    }
}

impl Bell {
    /// Wakes every waiter after a commit.
    pub fn ring(&self) {
        self.commits.send_modify(|commits| *commits = commits.wrapping_add(1));
    }

    /// Tells every waiter what to look at.
    pub fn tell(&self, hint: Hint) {
        // Fails if no waiter is there, which is fine.
        let _ = self.told.send(hint);
    }

    /// Returns a waiter for hints from here on.
    pub fn hints(&self) -> Hints {
        Hints { commits: self.commits.subscribe(), told: self.told.subscribe() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_are_coalesced_and_a_waiter_that_lags_is_told_to_look_at_everything() {
        let bell = Bell::default();
        let mut hints = bell.hints();
        bell.ring();
        bell.ring();
        bell.tell(Hint::Ready("night".to_owned()));
        assert_eq!(hints.next().await, Some(Hint::Ready("night".to_owned())));
        assert_eq!(hints.next().await, Some(Hint::Commit));
        for _ in 0..=LAG_MAX {
            bell.tell(Hint::Ready("night".to_owned()));
        }
        assert_eq!(hints.next().await, Some(Hint::Commit));
        assert_eq!(hints.next().await, Some(Hint::Ready("night".to_owned())));
        drop(bell);
        while hints.next().await.is_some() {}
    }

    #[test]
    fn a_waiter_can_ask_without_waiting() {
        let bell = Bell::default();
        let mut hints = bell.hints();
        assert!(!hints.has_any());
        bell.ring();
        bell.ring();
        assert!(hints.has_any() && !hints.has_any());
        bell.tell(Hint::Ready("night".to_owned()));
        bell.tell(Hint::Ready("day".to_owned()));
        assert!(hints.has_any() && !hints.has_any());
    }
}
