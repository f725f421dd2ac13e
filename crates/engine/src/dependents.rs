//! Who waits for whom: a map in memory of what the logs of the waiting jobs say, built at the start.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use lastword_core::{Job, JobId};

use crate::shared::lock;

/// For each job that others wait for: those others.
#[derive(Debug, Default)]
pub(crate) struct Dependents(Mutex<HashMap<JobId, BTreeSet<JobId>>>);

impl Dependents {
    /// Notes what a job waits for.
    pub(crate) fn add(&self, job: &Job) {
        let mut waiting = lock(&self.0);
        for dependency in &job.unmet {
            waiting.entry(dependency.job).or_default().insert(job.id);
        }
    }

    /// Returns who waits for a job.
    pub(crate) fn of(&self, other: JobId) -> Vec<JobId> {
        lock(&self.0).get(&other).map_or_else(Vec::new, |waiting| waiting.iter().copied().collect())
    }

    /// Notes that a job was told.
    pub(crate) fn remove(&self, other: JobId, dependent: JobId) {
        let mut waiting = lock(&self.0);
        if let Some(dependents) = waiting.get_mut(&other) {
            dependents.remove(&dependent);
            if dependents.is_empty() {
                waiting.remove(&other);
            }
        }
    }

    /// Returns every job that others wait for.
    pub(crate) fn awaited(&self) -> Vec<JobId> {
        let mut awaited: Vec<JobId> = lock(&self.0).keys().copied().collect();
        awaited.sort_unstable();
        awaited
    }
}
