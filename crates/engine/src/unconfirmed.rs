//! Unconfirmed writes: requests that may or may not have counted, because the journal did not answer or the caller went away first. Each job
//! is read again after a pause, and what follows from its log is done; nothing waits for the next sweep because an answer was lost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use lastword_core::JobId;
use tokio::time::Instant;

use crate::lock::lock;

/// Pause before a job is read again. A journal that refuses writes can often be read all the time: without a pause the retry would spin.
const PAUSE: Duration = Duration::from_millis(500);

/// The jobs with unconfirmed writes, and when to read them again.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Mutex<(BTreeSet<JobId>, Option<Instant>)>);

impl Unconfirmed {
    /// Returns when to read the jobs again.
    pub(crate) fn due(&self) -> Option<Instant> {
        lock(&self.0).1
    }

    /// Adds jobs.
    pub(crate) fn add(&self, ids: impl IntoIterator<Item = JobId>) {
        let mut unconfirmed = lock(&self.0);
        unconfirmed.0.extend(ids);
        unconfirmed.1.get_or_insert_with(|| Instant::now() + PAUSE);
    }

    /// Takes all jobs if it is time.
    pub(crate) fn take_due(&self) -> BTreeSet<JobId> {
        let mut unconfirmed = lock(&self.0);
        match unconfirmed.1 {
            Some(due) if due <= Instant::now() => std::mem::take(&mut *unconfirmed).0,
            _ => BTreeSet::new(),
        }
    }
}
