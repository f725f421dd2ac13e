//! Troubles: what went wrong and needs a person, as a short list and in the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use lastword_store as store;

use crate::Trouble;
use crate::host::Clock;
use crate::lock::lock;

/// Troubles in the list. A person reads it; the log has them all.
const TROUBLES_MAX: usize = 64;

/// The list.
pub(crate) struct Troubles {
    list: Mutex<VecDeque<Trouble>>,
    clock: Arc<dyn Clock>,
}

impl Troubles {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Troubles {
        Troubles { list: Mutex::default(), clock }
    }

    /// Adds a trouble, or counts it if it is known. It is logged when it is new and at each power of two: hours of it must not fill a disk.
    pub(crate) fn add(&self, job: Option<JobId>, what: impl Into<String>, next: &str) {
        let (at, what) = (self.clock.now().wall, what.into());
        let mut troubles = lock(&self.list);
        let known = troubles.iter().position(|trouble| trouble.job == job && trouble.what == what);
        let trouble = match known.and_then(|at| troubles.remove(at)) {
            Some(known) => Trouble { at, count: known.count.saturating_add(1), ..known },
            None => Trouble { at, job, what, next: next.to_owned(), count: 1 },
        };
        if trouble.count.is_power_of_two() {
            log(&trouble);
        }
        if troubles.len() >= TROUBLES_MAX {
            troubles.pop_front();
        }
        troubles.push_back(trouble);
    }

    /// Adds an error of the journal.
    pub(crate) fn journal(&self, job: Option<JobId>, what: &str, error: &store::Error) {
        let next = match error {
            store::Error::Corrupt(_) => {
                "damaged parts of the journal are left alone: restore it from a backup"
            }
            store::Error::Refused(_) => {
                "the server does not allow it: check that it is not older than this worker, and whose token the worker has"
            }
            _ => "it is tried again; check the free disk space and the permissions of the state folder",
        };
        self.add(job, format!("{what}: {error}"), next);
    }

    /// Returns the list, the newest last.
    pub(crate) fn list(&self) -> Vec<Trouble> {
        lock(&self.list).iter().cloned().collect()
    }

    /// Removes those of a job that ended or was removed.
    pub(crate) fn forget(&self, job: JobId) {
        lock(&self.list).retain(|trouble| trouble.job != Some(job));
    }
}

fn log(trouble: &Trouble) {
    let Trouble { what, next, count, .. } = trouble;
    match trouble.job {
        Some(job) => tracing::warn!(%job, count, next, "{what}"),
        None => tracing::warn!(count, next, "{what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use lastword_core::{Awake, BootTime, Now, Timestamp};

    use super::*;

    /// Counts its readings.
    struct Counter(AtomicU64);

    impl Clock for Counter {
        fn now(&self) -> Now {
            let at = self.0.fetch_add(1, Ordering::Relaxed);
            Now { wall: Timestamp(at), awake: Awake(at) }
        }

        fn since_boot(&self) -> BootTime {
            BootTime(0)
        }

        fn random(&self, _: &mut [u8]) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_same_trouble_is_counted_and_the_list_stays_short() {
        let troubles = Troubles::new(Arc::new(Counter(AtomicU64::new(0))));
        for n in 0..200 {
            troubles.add(None, "the disk is full", "make room");
            troubles.add(None, format!("number {n}"), "nothing");
        }
        let list = troubles.list();
        assert_eq!(list.len(), TROUBLES_MAX);
        let full = list.iter().find(|trouble| trouble.what == "the disk is full").expect("it is kept");
        assert_eq!((full.count, full.at), (200, Timestamp(398)));
        assert_eq!(list.last().map(|trouble| trouble.what.as_str()), Some("number 199"));
    }
}
