//! Worktrees of jobs that are over: each is left by its rule, also if whoever should have done it was killed.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use lastword_core::decide::Refusal;
use lastword_core::outcome::Outcome;
use lastword_core::spec::Spec;
use lastword_core::{Job, JobId};
use lastword_store::siblings::Siblings;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::Error;
use crate::shared::{Shared, lock};

/// Returns whether a job that is over keeps a worktree in which nothing was changed; `None` if it has none.
pub(crate) fn keeps_worktree(job: &Job) -> Option<bool> {
    let worktree = job.spec.as_ref()?.worktree.as_ref()?;
    // Where nobody can say what ran, nobody can say that nothing works there any more.
    let lost = job.last_word().is_some_and(|word| word.outcome == Outcome::Lost);
    Some(worktree.keep || lost)
}

/// Which jobs run in the worktree of another job.
#[derive(Debug, Default)]
pub(crate) struct WorktreeUse {
    /// By the job that a worktree was made for: shared while a job that is to run in it is being stored, held alone while it is checked for
    /// users and removed. So no order of the two leaves a live job without its worktree.
    locks: Mutex<HashMap<JobId, Arc<RwLock<()>>>>,
    /// The job in whose worktree a live job runs, as far as it was looked up.
    runs_in: Mutex<HashMap<JobId, Option<JobId>>>,
}

impl WorktreeUse {
    /// Returns the lock of a worktree.
    pub(crate) fn of(&self, owner: JobId) -> Arc<RwLock<()>> {
        let mut locks = lock(&self.locks);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(owner).or_default())
    }
}

impl<J: Siblings> Shared<J> {
    /// Leaves the worktree of a job that is over. What cannot be done now is tried again by a later sweep.
    pub(crate) async fn leave_worktree(self: &Arc<Self>, id: JobId, keep: bool) {
        let Some(_alone) = self.alone_in_worktree(id).await else { return };
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

    /// Returns a job that has not ended and runs in the worktree of `owner`, as a resumed job does.
    pub(crate) async fn user_of_worktree(&self, owner: JobId) -> Result<Option<Job>, Error> {
        if !self.trees.worktree(owner).is_some_and(|path| path.is_dir()) {
            return Ok(None);
        }
        let live = self.live_rows().await?;
        let is_live: HashSet<JobId> = live.iter().map(|row| row.job).collect();
        lock(&self.worktree_use.runs_in).retain(|id, _| is_live.contains(id));
        for row in live {
            if row.job != owner && self.runs_in(row.job).await? == Some(owner) {
                return Ok(Some(self.load(row.job).await?));
            }
        }
        Ok(None)
    }

    /// Locks a worktree in which no job runs any more. While one does, or while that cannot be said, the worktree is kept, and a later sweep
    /// tries again.
    async fn alone_in_worktree(&self, id: JobId) -> Option<OwnedRwLockWriteGuard<()>> {
        let alone = self.worktree_use.of(id).write_owned().await;
        let unused = matches!(self.user_of_worktree(id).await, Ok(None));
        if !unused {
            lock(&self.worktrees_left).insert(id);
        }
        unused.then_some(alone)
    }

    /// Returns the job in whose worktree another one runs. The folder of a job never changes, so its log is read once.
    async fn runs_in(&self, id: JobId) -> Result<Option<JobId>, Error> {
        if let Some(known) = lock(&self.worktree_use.runs_in).get(&id) {
            return Ok(*known);
        }
        let job = self.load(id).await?;
        let owner = job.spec.as_ref().and_then(|spec| self.worktree_around(id, spec));
        lock(&self.worktree_use.runs_in).insert(id, owner);
        Ok(owner)
    }

    /// Returns the job whose worktree a job is to run in, if that is not its own.
    fn worktree_around(&self, id: JobId, spec: &Spec) -> Option<JobId> {
        let own = self.trees.worktree(id).filter(|_| spec.worktree.is_none())?;
        let below = Path::new(&spec.cwd).strip_prefix(own.parent()?).ok()?;
        below.components().next()?.as_os_str().to_str()?.parse().ok()
    }

    /// Keeps the worktree that a job is to run in from being removed until the job is stored; from then on it is a live job that uses
    /// it. Refuses if the worktree is gone.
    pub(crate) async fn hold_worktree(
        &self,
        id: JobId,
        spec: &Spec,
    ) -> Result<Option<OwnedRwLockReadGuard<()>>, Error> {
        let Some(owner) = self.worktree_around(id, spec) else { return Ok(None) };
        let held = self.worktree_use.of(owner).read_owned().await;
        if !self.trees.worktree(owner).is_some_and(|path| path.is_dir()) {
            return Err(Refusal::Nothing(owner, "no worktree any more").into());
        }
        Ok(Some(held))
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
        let Some(_alone) = self.alone_in_worktree(id).await else { return };
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
