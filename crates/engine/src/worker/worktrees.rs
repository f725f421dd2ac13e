//! Worktrees of ended jobs: each is released by its rule, also after a crash.

use std::collections::HashSet;
use std::sync::Arc;

use lastword_core::outcome::Outcome;
use lastword_core::{Job, JobId};
use lastword_store::Store;

use super::Worker;
use crate::lock::lock;

/// Reports whether an ended job keeps a worktree without changes; `None` if it has no worktree.
pub(super) fn keeps_worktree(job: &Job) -> Option<bool> {
    let worktree = job.spec.as_ref()?.worktree.as_ref()?;
    // A lost job may still have a process at work in it.
    let lost = job.last_word().is_some_and(|word| word.outcome == Outcome::Lost);
    // The conversation may go on, in the same folder.
    Some(worktree.keep || lost || job.reports_turns())
}

impl<J: Store> Worker<J> {
    /// Releases the worktree of an ended job. A failure is tried again by a later sweep.
    pub(super) async fn leave_worktree(&self, id: JobId, keep: bool) {
        let Some(_alone) = self.lock_unused_worktree(id).await else { return };
        match self.host.leave_worktree(id, keep).await {
            Ok(_) => self.forget_worktree(id),
            Err(why) => {
                lock(&self.leftovers.worktrees).insert(id);
                let what = format!("its worktree is kept, because git failed on it: {why}");
                let next = "it is tried again; `lastword rm --force` removes it with all that is in it";
                self.desk.troubles.add(Some(id), what, next);
            }
        }
    }

    /// Forgets that the worktree of a job is to be released.
    pub(crate) fn forget_worktree(&self, id: JobId) {
        lock(&self.leftovers.worktrees).remove(&id);
    }

    /// Releases every worktree without a live job: what a crash left, and worktrees of unknown jobs.
    pub(super) fn sweep_worktrees(self: &Arc<Self>, live: HashSet<JobId>) {
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            match worker.host.worktrees().await {
                Ok(all) => worker.leave_all(all.into_iter().filter(|id| !live.contains(id))).await,
                Err(why) => {
                    let next = "check the permissions of the folder `worktrees` in the data folder";
                    worker.desk.troubles.add(None, format!("cannot list worktrees: {why}"), next);
                }
            }
        });
    }

    /// Tries again to release what could not be released.
    pub(super) fn leave_again(self: &Arc<Self>) {
        let left: Vec<JobId> = lock(&self.leftovers.worktrees).iter().copied().collect();
        if !left.is_empty() {
            let worker = Arc::clone(self);
            tokio::spawn(async move { worker.leave_all(left.into_iter()).await });
        }
    }

    async fn leave_all(&self, ids: impl Iterator<Item = JobId>) {
        for id in ids {
            match self.desk.load(id).await {
                // Submitted since the list was read.
                Ok(job) if job.spec.is_some() && !job.is_ended() => {}
                Ok(job) => match keeps_worktree(&job) {
                    Some(keep) => self.leave_worktree(id, keep).await,
                    None => self.leave_unowned(id).await,
                },
                Err(error) => {
                    lock(&self.leftovers.worktrees).insert(id);
                    let what = format!("its worktree is kept, because its log cannot be read: {error}");
                    self.desk.troubles.add(Some(id), what, "it is tried again");
                }
            }
        }
    }

    /// Removes the worktree of an unknown job, unless there is work in it.
    async fn leave_unowned(&self, id: JobId) {
        let Some(_alone) = self.lock_unused_worktree(id).await else { return };
        match self.host.leave_worktree(id, false).await {
            Ok(None) => {}
            Ok(Some(unsaved)) => {
                let path = self.host.worktree(id).unwrap_or_default();
                let what = format!("the worktree of an unknown job is kept: {}", unsaved.0);
                let next = format!("look into {}; `git worktree remove` removes it", path.display());
                self.desk.troubles.add(Some(id), what, &next);
            }
            Err(why) => {
                let what = format!("the worktree of an unknown job is kept, because git failed on it: {why}");
                self.desk.troubles.add(Some(id), what, "the next daemon tries again");
            }
        }
    }
}
