//! Doubts: requests of which nobody knows whether they count, because the journal did not answer, or because whoever asked went away
//! before it did. What follows from them is found out and done; nobody waits for the next sweep because an answer was lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lastword_core::JobId;
use lastword_store::Error;
use lastword_store::siblings::Siblings;
use tokio::time::Instant;

use crate::shared::{Shared, lock};

/// Pause before a job in doubt is looked at. A journal that takes no writes can often be read all the time: without a pause, what
/// follows from a doubt would be tried without end.
const PAUSE: Duration = Duration::from_millis(500);

/// The jobs in doubt, and when they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<(BTreeSet<JobId>, Option<Instant>)>);

impl Doubts {
    /// Returns when somebody must look.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        lock(&self.0).1
    }

    fn add(&self, ids: impl IntoIterator<Item = JobId>) {
        let mut doubts = lock(&self.0);
        doubts.0.extend(ids);
        doubts.1.get_or_insert_with(|| Instant::now() + PAUSE);
    }

    fn take(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut *lock(&self.0)).0
    }
}

/// A request whose answer is not there yet. If it is dropped before it is settled, the job is looked at again.
pub(crate) struct Doubt<'a, J> {
    shared: &'a Shared<J>,
    id: JobId,
    settled: bool,
}

impl<J> Doubt<'_, J> {
    /// The journal has answered.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }
}

impl<J> Drop for Doubt<'_, J> {
    fn drop(&mut self) {
        if !self.settled {
            self.shared.look_again(self.id);
        }
    }
}

impl<J> Shared<J> {
    /// Notes that something is being written to a job.
    pub(crate) fn doubt(&self, id: JobId) -> Doubt<'_, J> {
        Doubt { shared: self, id, settled: false }
    }

    /// Has a job looked at once more, and done what follows from what is stored of it.
    pub(crate) fn look_again(&self, id: JobId) {
        self.doubts.add([id]);
        self.wake.notify_one();
    }
}

impl<J: Siblings> Shared<J> {
    /// Looks at every job in doubt if it is time, and does what follows from whatever is stored of it.
    pub(crate) async fn settle_doubts(self: &Arc<Self>) -> Result<(), Error> {
        if self.doubts.look_at().is_none_or(|at| at > Instant::now()) {
            return Ok(());
        }
        let mut doubtful = self.doubts.take();
        while let Some(id) = doubtful.pop_first() {
            match self.load(id).await {
                Ok(job) => {
                    self.tasks.nudge(id);
                    self.wrote(&job);
                    self.watch_dependencies(&job).await;
                }
                Err(crate::Error::Journal(error @ Error::Unavailable(_))) => {
                    doubtful.insert(id);
                    self.doubts.add(doubtful);
                    return Err(error);
                }
                // A log that cannot be read has its own trouble, told by whoever needs it.
                Err(_) => {}
            }
        }
        Ok(())
    }
}
