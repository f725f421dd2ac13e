//! What could not be done and is left for a sweep.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_core::JobId;

use crate::lock::lock;

/// What could not be done and is left for a sweep.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// An environment that no job needs is still there.
    envs: AtomicBool,
    /// Jobs whose worktree could not be released.
    pub(super) worktrees: Mutex<HashSet<JobId>>,
    /// Jobs that wait for others and whose log could not be read.
    unread: Mutex<BTreeSet<JobId>>,
}

impl Leftovers {
    /// Notes that an environment is left.
    pub(super) fn note_envs(&self) {
        self.envs.store(true, Ordering::Relaxed);
    }

    /// Notes that a job's log could not be read; reports whether that is new.
    pub(super) fn note_unread(&self, job: JobId) -> bool {
        lock(&self.unread).insert(job)
    }

    /// Forgets a job whose log could be read.
    pub(super) fn forget_unread(&self, job: JobId) {
        lock(&self.unread).remove(&job);
    }

    /// Returns the jobs whose log could not be read.
    pub(super) fn unread(&self) -> Vec<JobId> {
        lock(&self.unread).iter().copied().collect()
    }

    /// Reports whether one is left, and forgets it.
    pub(super) fn take_envs(&self) -> bool {
        self.envs.swap(false, Ordering::Relaxed)
    }
}
