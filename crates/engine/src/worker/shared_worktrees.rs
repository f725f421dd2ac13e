//! Worktrees in which other jobs run, as a resumed job does: such a worktree is neither released nor removed.

use std::collections::HashSet;
use std::path::Path;

use lastword_core::decide::Refusal;
use lastword_core::spec::Spec;
use lastword_core::{Job, JobId};
use lastword_store::Store;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::Worker;
use crate::Error;
use crate::lock::lock;

impl<J: Store> Worker<J> {
    /// Locks a worktree against jobs that are to run in it.
    pub(crate) async fn lock_worktree(&self, owner: JobId) -> OwnedRwLockWriteGuard<()> {
        self.worktree_use.of(owner).write_owned().await
    }

    /// Locks a worktree in which no job runs any more. While one does, or while that cannot be known, the worktree is kept, and a later sweep
    /// tries again.
    pub(super) async fn lock_unused_worktree(&self, id: JobId) -> Option<OwnedRwLockWriteGuard<()>> {
        let alone = self.lock_worktree(id).await;
        let unused = matches!(self.user_of_worktree(id).await, Ok(None));
        if !unused {
            lock(&self.leftovers.worktrees).insert(id);
        }
        unused.then_some(alone)
    }

    /// Keeps the worktree that a job is to run in from being removed until the job is stored; from then on it is a live job that uses it.
    /// Refuses if the worktree is gone.
    pub(crate) async fn hold_worktree(
        &self,
        id: JobId,
        spec: &Spec,
    ) -> Result<Option<OwnedRwLockReadGuard<()>>, Error> {
        let Some(owner) = self.worktree_around(id, spec) else { return Ok(None) };
        let held = self.worktree_use.of(owner).read_owned().await;
        if !self.host.worktree(owner).is_some_and(|path| path.is_dir()) {
            return Err(Refusal::Nothing(owner, "no worktree any more").into());
        }
        Ok(Some(held))
    }

    /// Returns a live job that runs in the worktree of `owner`.
    pub(crate) async fn user_of_worktree(&self, owner: JobId) -> Result<Option<Job>, Error> {
        if !self.host.worktree(owner).is_some_and(|path| path.is_dir()) {
            return Ok(None);
        }
        let live = self.desk.live_rows().await?;
        let is_live: HashSet<JobId> = live.iter().map(|row| row.job).collect();
        self.worktree_use.forget_ended(&is_live);
        for row in live {
            if row.job != owner && self.runs_in(row.job).await? == Some(owner) {
                return Ok(Some(self.desk.load(row.job).await?));
            }
        }
        Ok(None)
    }

    /// Returns the job in whose worktree another one runs. The folder of a job never changes, so its log is read once.
    async fn runs_in(&self, id: JobId) -> Result<Option<JobId>, Error> {
        if let Some(known) = self.worktree_use.known(id) {
            return Ok(known);
        }
        let job = self.desk.load(id).await?;
        let owner = job.spec.as_ref().and_then(|spec| self.worktree_around(id, spec));
        self.worktree_use.note(id, owner);
        Ok(owner)
    }

    /// Returns the job whose worktree a job is to run in, if that is not its own.
    fn worktree_around(&self, id: JobId, spec: &Spec) -> Option<JobId> {
        let own = self.host.worktree(id).filter(|_| spec.worktree.is_none())?;
        let below = Path::new(&spec.cwd).strip_prefix(own.parent()?).ok()?;
        below.components().next()?.as_os_str().to_str()?.parse().ok()
    }
}
