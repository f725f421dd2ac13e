//! What could not be done and is left for a sweep.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_core::JobId;

/// What could not be done and is left for a sweep.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// An environment that no job needs is still there.
    envs: AtomicBool,
    /// Jobs whose worktree could not be released.
    pub(super) worktrees: Mutex<HashSet<JobId>>,
}

impl Leftovers {
    /// Notes that an environment is left.
    pub(super) fn note_envs(&self) {
        self.envs.store(true, Ordering::Relaxed);
    }

    /// Reports whether one is left, and forgets it.
    pub(super) fn take_envs(&self) -> bool {
        self.envs.swap(false, Ordering::Relaxed)
    }
}
