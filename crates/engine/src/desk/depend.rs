//! Dependencies: a job that waits for others is told how each of them ended.
//!
//! The journal has a row for each wait, stored with the submission. When a job has ended, its dependents are read; when a job has begun to
//! wait, its dependencies are read. Each read follows a write, so the later of the two sees both writes. A sweep repeats what a crash
//! interrupted.

use std::collections::BTreeMap;

use lastword_core::decide::{Refusal, depend};
use lastword_core::outcome::Outcome;
use lastword_core::spec::Spec;
use lastword_core::{Job, JobId};
use lastword_store as store;
use lastword_store::Store;

use super::Desk;
use super::families::SUBMITTED_MS;
use crate::Error;

/// Waits per page of a sweep.
const PAGE: u32 = 256;

impl<J: Store> Desk<J> {
    /// Returns how the dependencies of a new job that have ended did so. Refuses one that does not exist.
    pub(crate) async fn ended_dependencies(&self, spec: &Spec) -> Result<BTreeMap<JobId, Outcome>, Error> {
        let mut ended = BTreeMap::new();
        for dependency in &spec.after {
            let row = self.row(dependency.job).await?.ok_or(Refusal::NotFound(dependency.job))?;
            ended.extend(row.outcome.map(|outcome| (dependency.job, outcome)));
        }
        Ok(ended)
    }

    /// Checks each job that a stored job waits for, and tells it of those that have ended or are gone.
    pub(crate) async fn check_dependencies(&self, job: &Job) {
        let unmet = job.unmet.iter().map(|dependency| dependency.job);
        let waits = unmet.chain(job.children.iter().map(|child| child.job));
        for other in waits.filter(|_| !job.is_ended()) {
            match self.row(other).await {
                Ok(Some(row)) => {
                    if row.outcome.is_some() {
                        self.tell(job.id, other, row.outcome).await;
                    }
                }
                Ok(None) => self.tell(job.id, other, None).await,
                Err(error) => {
                    if matches!(error, store::Error::Unavailable(_)) {
                        self.agenda.recheck(job.id);
                    }
                    let what = "the jobs it waits for cannot be checked";
                    self.troubles.journal(Some(job.id), what, &error);
                }
            }
        }
    }

    /// Tells the jobs that wait for `other` how it ended. A later sweep repeats what fails.
    pub(crate) async fn tell_dependents(&self, other: JobId, outcome: Outcome) {
        match self.journal.dependents(other).await {
            Ok(dependents) => {
                for dependent in dependents {
                    self.tell(dependent, other, Some(outcome)).await;
                }
            }
            Err(error) => {
                self.agenda.recheck(other);
                self.troubles.journal(Some(other), "the jobs that wait for it cannot be read", &error);
            }
        }
    }

    /// Tells every job whose wait is over and that was not told.
    pub(crate) async fn tell_waits_over(&self) -> Result<(), store::Error> {
        let mut after = None;
        loop {
            let page = self.journal.waits_over(after, PAGE).await?;
            for over in &page {
                self.tell(over.job, over.other, over.outcome).await;
            }
            match page.last() {
                Some(last) if page.len() == PAGE as usize => after = Some((last.other, last.job)),
                _ => return Ok(()),
            }
        }
    }

    /// Tells a job how another one ended; `None` if that one was removed.
    async fn tell(&self, dependent: JobId, other: JobId, outcome: Option<Outcome>) {
        let told = self
            .request(dependent, None, |job| {
                let is_child = job.children.iter().any(|child| child.job == other);
                let made_ms = self.now().wall.0.saturating_sub(other.made_at().0);
                match is_child && outcome.is_none() && made_ms < SUBMITTED_MS {
                    // Its submission follows.
                    true => Ok(Vec::new()),
                    false => depend::decide(job, other, outcome),
                }
            })
            .await;
        if let Err(error) = told {
            if matches!(error, Error::Journal(store::Error::Unavailable(_))) {
                self.agenda.recheck(dependent);
            }
            let what = format!("it could not be told that {other} has ended: {error}");
            self.troubles.add(Some(dependent), what, "it is tried again");
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
                    self.check_dependencies(&job).await;
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
