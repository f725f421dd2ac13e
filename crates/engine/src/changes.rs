//! News of jobs: a feed of ids that changed, and a wake-up for each caller that waits for one job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use tokio::sync::{Notify, broadcast};

use crate::lock::lock;

/// Changes a listener may lag behind. Beyond that it is told so, and reads everything again.
const LAG_MAX: usize = 1_024;

/// Listeners and waiters of one process.
#[derive(Debug)]
pub(crate) struct Changes {
    feed: broadcast::Sender<JobId>,
    waiters: Mutex<HashMap<JobId, Arc<Notify>>>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { feed: broadcast::Sender::new(LAG_MAX), waiters: Mutex::default() }
    }
}

impl Changes {
    /// Announces that a job changed.
    pub(crate) fn announce(&self, id: JobId) {
        // Fails if no listener is there, which is fine.
        let _ = self.feed.send(id);
        if let Some(waiter) = lock(&self.waiters).get(&id) {
            waiter.notify_waiters();
        }
    }

    /// Wakes every caller that waits: what changed is not known.
    pub(crate) fn announce_all(&self) {
        lock(&self.waiters).values().for_each(|waiter| waiter.notify_waiters());
    }

    /// Returns the feed of all changes.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<JobId> {
        self.feed.subscribe()
    }

    /// Returns a waiter for one job.
    pub(crate) fn waiter(&self, id: JobId) -> Waiter<'_> {
        let notify = Arc::clone(lock(&self.waiters).entry(id).or_default());
        Waiter { changes: self, id, notify }
    }
}

/// A caller that waits for changes of one job.
pub(crate) struct Waiter<'a> {
    changes: &'a Changes,
    id: JobId,
    pub(crate) notify: Arc<Notify>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.changes.waiters);
        // Two references, the map's and this one: the last waiter.
        if Arc::strong_count(&self.notify) <= 2 {
            waiters.remove(&self.id);
        }
    }
}
