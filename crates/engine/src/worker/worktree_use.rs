//! Which jobs run in the worktree of another job, as resumed jobs do.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use tokio::sync::RwLock;

use crate::lock::lock;

/// Which jobs run in the worktree of another job.
#[derive(Debug, Default)]
pub(super) struct WorktreeUse {
    /// By the job that a worktree was made for: shared while a job that is to run in it is being stored, held alone while it is checked for
    /// users and removed. So no order of the two leaves a live job without its worktree.
    locks: Mutex<HashMap<JobId, Arc<RwLock<()>>>>,
    /// The job in whose worktree a live job runs, as far as it was looked up.
    runs_in: Mutex<HashMap<JobId, Option<JobId>>>,
}

impl WorktreeUse {
    /// Returns the lock of a worktree.
    pub(super) fn of(&self, owner: JobId) -> Arc<RwLock<()>> {
        let mut locks = lock(&self.locks);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(owner).or_default())
    }

    /// Returns the job in whose worktree a live job runs, if that was looked up.
    pub(super) fn known(&self, id: JobId) -> Option<Option<JobId>> {
        lock(&self.runs_in).get(&id).copied()
    }

    /// Notes the job in whose worktree a live job runs.
    pub(super) fn note(&self, id: JobId, owner: Option<JobId>) {
        lock(&self.runs_in).insert(id, owner);
    }

    /// Forgets every job that is not live.
    pub(super) fn forget_ended(&self, live: &HashSet<JobId>) {
        lock(&self.runs_in).retain(|id, _| live.contains(id));
    }
}
