//! Dependencies: a job that waits for others is told how each of them ended.

use lastword_core::decide::depend;
use lastword_core::outcome::Outcome;
use lastword_core::{Job, JobId};
use lastword_store as store;
use lastword_store::Store;

use super::Desk;
use crate::Error;

impl<J: Store> Desk<J> {
    /// Notes which jobs a stored job waits for, then checks each of them. A dependency that ends after the note finds the note; one that ended
    /// before is found by the check. The job must be stored first: telling an unstored job would drop its note.
    pub(crate) async fn watch_dependencies(&self, job: &Job) {
        self.dependents.add(job);
        for dependency in &job.unmet {
            self.check_awaited(dependency.job).await;
        }
    }

    /// Tells the dependents of a job, if it has ended.
    pub(crate) async fn check_awaited(&self, other: JobId) {
        match self.row(other).await {
            Ok(Some(row)) => {
                if let Some(outcome) = row.outcome {
                    self.tell_dependents(other, outcome).await;
                }
            }
            // It was removed, so it had ended; its outcome is unknown.
            Ok(None) => self.tell_dependents(other, Outcome::Lost).await,
            Err(error) => {
                if matches!(error, store::Error::Unavailable(_)) {
                    self.agenda.recheck(other);
                }
                self.troubles.journal(None, "the dependencies of jobs cannot be checked", &error);
            }
        }
    }

    /// Tells the jobs that wait for `other` how it ended. A later sweep repeats what fails.
    pub(crate) async fn tell_dependents(&self, other: JobId, outcome: Outcome) {
        for dependent in self.dependents.of(other) {
            let told = self.request(dependent, None, |job| depend::decide(job, other, outcome)).await;
            match told {
                Ok(_) => self.dependents.remove(other, dependent),
                Err(error) => {
                    if matches!(error, Error::Journal(store::Error::Unavailable(_))) {
                        self.agenda.recheck(other);
                    }
                    let what = format!("it could not be told that {other} has ended: {error}");
                    self.troubles.add(Some(dependent), what, "it is tried again");
                }
            }
        }
    }

    /// Reads every job with an unconfirmed write, if it is time, and does what follows from its log.
    pub(crate) async fn recheck_unconfirmed(&self) -> Result<(), store::Error> {
        let mut unconfirmed = self.agenda.unconfirmed.take_due();
        while let Some(id) = unconfirmed.pop_first() {
            match self.load(id).await {
                Ok(job) => {
                    self.agenda.tasks.nudge(id);
                    self.wrote(&job);
                    self.watch_dependencies(&job).await;
                }
                Err(Error::Journal(error @ store::Error::Unavailable(_))) => {
                    unconfirmed.insert(id);
                    self.agenda.unconfirmed.add(unconfirmed);
                    return Err(error);
                }
                // The reader that needs an unreadable log reports it.
                Err(_) => {}
            }
        }
        Ok(())
    }
}
