//! Waits: which job waits for which. A row for each, written by the append that begins or ends the wait, so that they never differ from
//! the log.

use lastword_core::outcome::Outcome;
use lastword_core::{Append, Fact, JobId};

/// A wait for a job that has ended or is not there: the job that waits was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOver {
    /// The job that was waited for.
    pub other: JobId,
    /// The job that waits.
    pub job: JobId,
    /// How `other` ended; `None` if it is not there.
    pub outcome: Option<Outcome>,
}

/// What an append changes of the waits of its job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitChange {
    /// Jobs that it waits for from now on.
    pub(crate) begun: Vec<JobId>,
    /// Jobs that it does not wait for any more.
    pub(crate) over: Vec<JobId>,
    /// It ended while it waited: it waits for nothing any more.
    pub(crate) all_over: bool,
}

impl WaitChange {
    /// Returns what an append changes.
    pub(crate) fn of(append: &Append) -> WaitChange {
        let mut change = WaitChange::default();
        if append.row.outcome.is_some() && append.row.summary.unmet + append.row.summary.children > 0 {
            change.all_over = true;
            return change;
        }
        for event in &append.events {
            match &event.fact {
                Fact::Submitted(submitted) => {
                    for dependency in &submitted.spec.after {
                        change.begin(dependency.job);
                    }
                }
                Fact::DependencySettled(settled) => change.end(settled.job),
                Fact::DependencyRemoved(removed) => change.end(removed.job),
                Fact::ChildSubmitted(child) => change.begin(child.job),
                Fact::ChildEnded(child) => change.end(child.job),
                _ => {}
            }
        }
        change
    }

    /// Reports whether nothing changes.
    pub(crate) fn is_none(&self) -> bool {
        *self == WaitChange::default()
    }

    fn begin(&mut self, other: JobId) {
        if !self.begun.contains(&other) {
            self.begun.push(other);
        }
    }

    /// Ends a wait. One that the same append begins is never written.
    fn end(&mut self, other: JobId) {
        let begun = self.begun.len();
        self.begun.retain(|job| *job != other);
        if self.begun.len() == begun {
            self.over.push(other);
        }
    }
}
