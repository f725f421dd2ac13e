//! Dependents: an index in memory of which job waits for which, built from the logs of the waiting jobs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use lastword_core::{Job, JobId};

use crate::lock::lock;

/// For each awaited job: the jobs that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Dependents(Mutex<HashMap<JobId, BTreeSet<JobId>>>);

impl Dependents {
    /// Adds what a job waits for.
    pub(crate) fn add(&self, job: &Job) {
        let mut waiting = lock(&self.0);
        for dependency in &job.unmet {
            waiting.entry(dependency.job).or_default().insert(job.id);
        }
    }

    /// Returns the jobs that wait for `other`.
    pub(super) fn of(&self, other: JobId) -> Vec<JobId> {
        lock(&self.0).get(&other).map_or_else(Vec::new, |waiting| waiting.iter().copied().collect())
    }

    /// Removes a dependent that was told.
    pub(super) fn remove(&self, other: JobId, dependent: JobId) {
        let mut waiting = lock(&self.0);
        if let Some(dependents) = waiting.get_mut(&other) {
            dependents.remove(&dependent);
            if dependents.is_empty() {
                waiting.remove(&other);
            }
        }
    }

    /// Returns every awaited job.
    pub(crate) fn awaited(&self) -> Vec<JobId> {
        let mut awaited: Vec<JobId> = lock(&self.0).keys().copied().collect();
        awaited.sort_unstable();
        awaited
    }
}
