//! What went wrong and needs a person: a short list, and the log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use lastword_core::{JobId, Timestamp};

use crate::Trouble;

/// Troubles that are kept. A person reads them; the log has them all.
const TROUBLES_MAX: usize = 64;

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<VecDeque<Trouble>>);

impl Troubles {
    /// Adds one, or counts it if it is there already. It is logged when it is new, and at each power of two from there on: what
    /// goes on for hours must not fill a disk.
    pub(crate) fn add(&self, at: Timestamp, job: Option<JobId>, what: String, next: &str) {
        let mut troubles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Returns them, the one that was seen last at the end.
    pub(crate) fn list(&self) -> Vec<Trouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Forgets those of a job that is over or removed.
    pub(crate) fn forget(&self, job: JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|trouble| trouble.job != Some(job));
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
    use super::*;

    #[test]
    fn the_same_trouble_is_counted_and_the_list_stays_short() {
        let troubles = Troubles::default();
        for n in 0..200 {
            troubles.add(Timestamp(n), None, "the disk is full".to_owned(), "make room");
            troubles.add(Timestamp(n), None, format!("number {n}"), "nothing");
        }
        let list = troubles.list();
        assert_eq!(list.len(), TROUBLES_MAX);
        let full = list.iter().find(|trouble| trouble.what == "the disk is full").expect("it is kept");
        assert_eq!((full.count, full.at), (200, Timestamp(199)));
        assert_eq!(list.last().map(|trouble| trouble.what.as_str()), Some("number 199"));
    }
}
