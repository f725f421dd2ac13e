//! Worktrees of jobs that are over: each is left by its rule, also if whoever should have done it was killed.

use std::collections::HashSet;
use std::sync::Arc;

use lastword_core::outcome::Outcome;
use lastword_core::{Job, JobId};
use lastword_store::siblings::Siblings;

use crate::shared::{Shared, lock};

/// Returns whether a job that is over keeps a worktree in which nothing was changed; `None` if it has none.
pub(crate) fn keeps_worktree(job: &Job) -> Option<bool> {
    let worktree = job.spec.as_ref()?.worktree.as_ref()?;
    // Where nobody can say what ran, nobody can say that nothing works there any more.
    let lost = job.last_word().is_some_and(|word| word.outcome == Outcome::Lost);
    Some(worktree.keep || lost)
}

impl<J: Siblings> Shared<J> {
    /// Leaves the worktree of a job that is over. What cannot be done now is tried again by a later sweep.
    pub(crate) async fn leave_worktree(self: &Arc<Self>, id: JobId, keep: bool) {
        match self.trees.leave_worktree(id, keep).await {
            Ok(_) => _ = lock(&self.worktrees_left).remove(&id),
            Err(why) => {
                lock(&self.worktrees_left).insert(id);
                let what = format!("its worktree cannot be looked at, and is kept: {why}");
                let next = "it is tried again by itself; `lastword rm --force` removes it, whatever is in it";
                self.trouble(Some(id), what, next);
            }
        }
    }

    /// Leaves every worktree whose job is not live: what a crash prevented, or a job that nobody knows.
    pub(crate) fn sweep_worktrees(self: &Arc<Self>, live: HashSet<JobId>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            match shared.trees.worktrees().await {
                Ok(all) => shared.leave_all(all.into_iter().filter(|id| !live.contains(id))).await,
                Err(why) => {
                    let next = "look for the rights of the folder `worktrees` in the data folder";
                    shared.trouble(None, format!("worktrees cannot be looked for: {why}"), next);
                }
            }
        });
    }

    /// Tries those again that could not be left.
    pub(crate) fn leave_again(self: &Arc<Self>) {
        let left: Vec<JobId> = lock(&self.worktrees_left).iter().copied().collect();
        if !left.is_empty() {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.leave_all(left.into_iter()).await });
        }
    }

    async fn leave_all(self: &Arc<Self>, ids: impl Iterator<Item = JobId>) {
        for id in ids {
            match self.load(id).await {
                // It may have been asked for since somebody looked.
                Ok(job) if job.spec.is_some() && !job.is_ended() => {}
                Ok(job) => match keeps_worktree(&job) {
                    Some(keep) => self.leave_worktree(id, keep).await,
                    None => self.leave_unowned(id).await,
                },
                Err(error) => {
                    lock(&self.worktrees_left).insert(id);
                    self.trouble(
                        Some(id),
                        format!("its worktree is kept: {error}"),
                        "it is looked at again by itself",
                    );
                }
            }
        }
    }

    /// Leaves a worktree of a job that nobody knows; one in which there is work is left to a person.
    async fn leave_unowned(self: &Arc<Self>, id: JobId) {
        match self.trees.leave_worktree(id, false).await {
            Ok(None) => {}
            Ok(Some(unsaved)) => {
                let path = self.trees.worktree(id).unwrap_or_default();
                let what = format!("a worktree of a job that nobody knows is kept: {}", unsaved.0);
                let next = format!("look into {}; `git worktree remove` removes it", path.display());
                self.trouble(Some(id), what, &next);
            }
            Err(why) => {
                let what = format!("a worktree of a job that nobody knows cannot be looked at: {why}");
                self.trouble(Some(id), what, "it is kept, and looked at by the next daemon");
            }
        }
    }
}
