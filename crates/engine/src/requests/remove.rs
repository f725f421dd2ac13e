//! `remove` and `prune`: what has ended goes, with all that was kept of it.

use std::collections::HashSet;
use std::sync::Arc;

use lastword_core::decide::Refusal;
use lastword_core::{Job, JobId, Timestamp};
use lastword_store::Read;
use lastword_store::siblings::{self, Removal, Siblings};

use crate::shared::{Shared, lock};
use crate::{Engine, Error, Prune, Pruned};

/// Jobs looked at in one go.
const PAGE: u32 = 256;

impl<J: Siblings> Engine<J> {
    /// Removes an ended job: its log, its row, its recordings, its worktree. One in whose worktree there is work that is nowhere else
    /// is refused.
    pub async fn remove(&self, id: JobId) -> Result<(), Error> {
        self.shared.remove(id, false).await
    }

    /// Removes an ended job, whatever is in its worktree.
    pub async fn remove_with_work(&self, id: JobId) -> Result<(), Error> {
        self.shared.remove(id, true).await
    }

    /// Removes ended jobs that are old enough. Results that nobody has read stay, and worktrees with work in them, unless that was asked
    /// for; how many is said.
    pub async fn prune(&self, which: &Prune) -> Result<Pruned, Error> {
        let before = Timestamp(self.shared.now().wall.0.saturating_sub(which.older_than_ms));
        let mut pruned = Pruned::default();
        let (mut kept_unsaved, mut kept_in_use) = (HashSet::new(), HashSet::new());
        loop {
            // Those that were kept come again.
            let kept = kept_unsaved.len() + kept_in_use.len();
            let limit = if which.dry_run { u32::MAX } else { PAGE.saturating_add(kept as u32) };
            let prune = siblings::Prune { before, unread: which.unread, limit };
            let found = self.shared.journal.prunable(prune).await?;
            pruned.kept_unread = found.kept_unread;
            let is_new = |id: &JobId| !kept_unsaved.contains(id) && !kept_in_use.contains(id);
            let jobs: Vec<JobId> = found.jobs.into_iter().filter(is_new).collect();
            if jobs.is_empty() {
                return Ok(pruned);
            }
            for id in jobs {
                let removed = match which.dry_run {
                    true => self.shared.may_go(id, which.unsaved).await,
                    false => self.shared.remove(id, which.unsaved).await,
                };
                match removed {
                    Ok(()) => pruned.removed.push(id),
                    Err(Error::Unsaved { .. }) => _ = kept_unsaved.insert(id),
                    Err(Error::InUse { .. }) => _ = kept_in_use.insert(id),
                    Err(error) => return Err(error),
                }
            }
            pruned.kept_unsaved = kept_unsaved.len() as u64;
            pruned.kept_in_use = kept_in_use.len() as u64;
            if which.dry_run {
                return Ok(pruned);
            }
        }
    }
}

impl<J: Siblings> Shared<J> {
    /// Refuses if a live job runs in the worktree, if work would be lost, or if nobody can say whether it would.
    async fn may_go(&self, id: JobId, with_work: bool) -> Result<(), Error> {
        if let Some(user) = self.user_of_worktree(id).await? {
            let (job, by) = (called(&self.load(id).await?), user.id);
            return Err(Error::InUse { job, user: called(&user), by });
        }
        if with_work {
            return Ok(());
        }
        let what = match self.trees.unsaved(id).await {
            Ok(None) => return Ok(()),
            Ok(Some(unsaved)) => unsaved.0,
            Err(why) => format!("what, nobody can say: {why}"),
        };
        Err(Error::Unsaved { job: id, what })
    }

    async fn remove(self: &Arc<Self>, id: JobId, with_work: bool) -> Result<(), Error> {
        let row = self.journal.read(Read::Row(id)).await?.rows().pop();
        let outcome = match row {
            None => return Err(Refusal::NotFound(id).into()),
            Some(row) => row.outcome.ok_or(Refusal::NotEnded(id))?,
        };
        let _alone = self.worktree_use.of(id).write_owned().await;
        self.may_go(id, with_work).await?;
        self.trees.remove_worktree(id).await.map_err(|why| Error::Disk {
            what: format!("the worktree of {id} cannot be removed"),
            source: std::io::Error::other(why),
        })?;
        lock(&self.worktrees_left).remove(&id);
        // Once it is gone, nobody can say how it ended.
        self.tell_dependents(id, outcome).await;
        // Its recordings first: what is left by a crash between the two can be seen, and removed again.
        self.trees.remove(id).await.map_err(|source| Error::Disk {
            what: format!("what was kept of {id} cannot be removed"),
            source,
        })?;
        if self.journal.remove(id).await? == Removal::NotEnded {
            return Err(Refusal::NotEnded(id).into());
        }
        self.troubles.forget(id);
        self.changed(id);
        Ok(())
    }
}

/// Returns a job as a person calls it: by its name, if it has one, and by its short id.
fn called(job: &Job) -> String {
    let name = job.spec.as_ref().and_then(|spec| spec.name.as_deref());
    name.map_or_else(|| job.id.short(), |name| format!("{name} ({})", job.id.short()))
}
