//! Long logs that were folded before: a read folds only what is new, so a request does not cost more because a job has had many.
//!
//! The journal stays the truth. A read starts with the newest event that is known. A journal that does not have it (the job was removed, or
//! an older journal was put in place), or that is another instance by now, is read from the beginning.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lastword_core::{Event, Illegal, Job, JobId, view};

use crate::lock::lock;

/// Events from which on a log is kept. A shorter one is folded in the time of the read itself, and most jobs never have as many.
const LONG: u64 = 64;

/// Logs kept: those that were read last.
const KEPT_MAX: usize = 64;

/// A job, and what views need of its log.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The job.
    pub job: Job,
    /// The events with a fact that [`view::is_shown`].
    pub shown: Vec<Event>,
    /// The newest event; `None` without any.
    pub(super) newest: Option<Event>,
    /// The instance of the journal that it was read in: see [`lastword_core::Append::read_in`].
    pub(super) read_in: Option<u64>,
}

impl Folded {
    /// Returns a job without a log, which is read in an instance.
    pub(super) fn unborn(id: JobId, read_in: Option<u64>) -> Folded {
        Folded { job: Job::unborn(id), shown: Vec::new(), newest: None, read_in }
    }

    /// Adds the next events.
    pub(super) fn add(&mut self, events: Vec<Event>) -> Result<(), Illegal> {
        for event in &events {
            self.job.apply(event)?;
        }
        self.newest = events.last().cloned().or(self.newest.take());
        self.shown.extend(events.into_iter().filter(|event| view::is_shown(&event.fact)));
        Ok(())
    }
}

/// The logs that are kept, the one read last at the end.
#[derive(Debug, Default)]
pub(crate) struct FoldedLogs(Mutex<VecDeque<Arc<Folded>>>);

impl FoldedLogs {
    /// Returns what is kept of a job.
    pub(super) fn get(&self, id: JobId) -> Option<Arc<Folded>> {
        lock(&self.0).iter().find(|known| known.job.id == id).cloned()
    }

    /// Keeps a job as the one read last, if its log is long.
    pub(super) fn keep(&self, folded: &Arc<Folded>) {
        let mut kept = lock(&self.0);
        kept.retain(|known| known.job.id != folded.job.id);
        if folded.job.version.0 >= LONG {
            kept.push_back(Arc::clone(folded));
            let surplus = kept.len().saturating_sub(KEPT_MAX);
            kept.drain(..surplus);
        }
    }
}
