//! `rm` and `prune`: ended jobs are removed with their logs, recordings and worktrees.

use std::collections::{BTreeSet, HashSet};

use lastword_core::decide::Refusal;
use lastword_core::outcome::Outcome;
use lastword_core::view::row::Row;
use lastword_core::{JobId, OwnerId, Timestamp};
use lastword_store::{Removal, Store};

use super::Engine;
use crate::duties::Duties;
use crate::worker::Worker;
use crate::{Error, Prune, Pruned};

/// Jobs per round of a prune.
const PAGE: u32 = 256;

impl<J: Store> Engine<J> {
    /// Removes an ended job: its log, its row, its recordings, its worktree. Refuses if its worktree holds work that is nowhere else, unless
    /// `with_work`, and one of several jobs of a conversation.
    pub async fn remove(&self, id: JobId, with_work: bool) -> Result<(), Error> {
        let desk = self.desk();
        let first = desk.row(id).await?.and_then(|row| row.conversation);
        let jobs = match first {
            Some(first) => desk.conversation(first).await?.len(),
            None => 1,
        };
        match jobs {
            0 | 1 => self.worker.remove(id, with_work).await,
            jobs => Err(Error::InConversation { job: desk.load(id).await?.called(), id, jobs }),
        }
    }

    /// Removes a conversation: each of its jobs. Refuses if one of them has not ended, and like the removal of a job.
    pub async fn remove_conversation(&self, first: JobId, with_work: bool) -> Result<Vec<JobId>, Error> {
        let rows = self.desk().conversation(first).await?;
        let jobs: Vec<JobId> = rows.iter().map(|row| row.job).collect();
        let live = rows.iter().find(|row| row.outcome.is_none());
        match live {
            Some(live) => return Err(Refusal::NotEnded(live.job).into()),
            None if jobs.is_empty() => return Err(Refusal::NotFound(first).into()),
            None => {}
        }
        // Oldest first: the newest one stands for the conversation until all others are gone.
        for job in &jobs {
            self.worker.remove(*job, with_work).await?;
        }
        Ok(jobs)
    }

    /// Removes ended jobs that are old enough. Keeps and counts unread results and unsaved work unless asked otherwise, and worktrees in
    /// which a live job runs.
    pub async fn prune(&self, which: &Prune) -> Result<Pruned, Error> {
        let desk = self.desk();
        let before = Timestamp(desk.now().wall.0.saturating_sub(which.older_than_ms));
        let mut pruned = Pruned::default();
        let (mut kept_unsaved, mut kept_in_use) = (HashSet::new(), HashSet::new());
        loop {
            // Kept jobs are found again in every round.
            let kept = kept_unsaved.len() + kept_in_use.len();
            let limit = if which.dry_run { u32::MAX } else { PAGE.saturating_add(kept as u32) };
            let prune = lastword_store::Prune { before, unread: which.unread, limit };
            let found = desk.journal.prunable(prune).await?;
            pruned.kept_unread = found.kept_unread;
            let is_new = |id: &JobId| !kept_unsaved.contains(id) && !kept_in_use.contains(id);
            let jobs: Vec<JobId> = found.jobs.into_iter().filter(is_new).collect();
            if jobs.is_empty() {
                return Ok(pruned);
            }
            for id in jobs {
                match self.prune_one(id, which).await {
                    Ok(jobs) => pruned.removed.extend(jobs),
                    Err(Error::Unsaved { .. }) => _ = kept_unsaved.insert(id),
                    // Its conversation goes on since it was found.
                    Err(
                        Error::InUse { .. } | Error::Awaited { .. } | Error::Refused(Refusal::NotEnded(_)),
                    ) => {
                        kept_in_use.insert(id);
                    }
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

impl<J: Store> Engine<J> {
    /// Removes a job with its conversation, whose newest one it is, or only checks that.
    async fn prune_one(&self, id: JobId, which: &Prune) -> Result<Vec<JobId>, Error> {
        let first = self.desk().row(id).await?.and_then(|row| row.conversation);
        match (first, which.dry_run) {
            (Some(first), false) => self.remove_conversation(first, which.unsaved).await,
            (Some(first), true) => {
                let jobs: Vec<JobId> =
                    self.desk().conversation(first).await?.iter().map(|row| row.job).collect();
                for job in &jobs {
                    self.worker.check_removal(*job, which.unsaved).await?;
                }
                Ok(jobs)
            }
            (None, true) => self.worker.check_removal(id, which.unsaved).await.map(|()| vec![id]),
            (None, false) => self.worker.remove(id, which.unsaved).await.map(|()| vec![id]),
        }
    }
}

impl<J: Store> Worker<J> {
    /// Refuses if a live job runs in the worktree, if work would be lost, or if that cannot be known.
    async fn check_removal(&self, id: JobId, with_work: bool) -> Result<(), Error> {
        if let Some(user) = self.user_of_worktree(id).await? {
            let (job, by) = (self.desk.load(id).await?.called(), user.id);
            return Err(Error::InUse { job, user: user.called(), by });
        }
        if with_work {
            return Ok(());
        }
        let what = match self.host.unsaved(id).await {
            Ok(None) => return Ok(()),
            Ok(Some(unsaved)) => unsaved.0,
            Err(why) => format!("git cannot say what: {why}"),
        };
        Err(Error::Unsaved { job: id, what })
    }

    async fn remove(&self, id: JobId, with_work: bool) -> Result<(), Error> {
        let desk = &self.desk;
        let outcome = match desk.row(id).await? {
            None => return Err(Refusal::NotFound(id).into()),
            Some(row) => row.outcome.ok_or(Refusal::NotEnded(id))?,
        };
        let _alone = self.lock_worktree(id).await;
        self.check_removal(id, with_work).await?;
        self.host.remove_worktree(id).await.map_err(|why| Error::Disk {
            what: format!("cannot remove the worktree of {id}"),
            source: std::io::Error::other(why),
        })?;
        self.forget_worktree(id);
        self.release_dependents(id, outcome).await?;
        // Recordings first: what a crash leaves between the two is visible, and can be removed again.
        let ran_by = self.elsewhere(id).await?;
        self.host
            .remove(id, ran_by)
            .await
            .map_err(|source| Error::Disk { what: format!("cannot remove the files of {id}"), source })?;
        loop {
            match desk.journal.remove(id, desk.now().wall).await? {
                Removal::Gone | Removal::NotThere => break,
                Removal::NotEnded => return Err(Refusal::NotEnded(id).into()),
                // A job that was submitted before the end waits since.
                Removal::Awaited => self.release_dependents(id, outcome).await?,
            }
        }
        desk.troubles.forget(id);
        desk.changes.announce(id);
        Ok(())
    }
}

impl<J: Store> Worker<J> {
    /// Returns the owners that have files of a job on hosts of their own.
    async fn elsewhere(&self, id: JobId) -> Result<Vec<OwnerId>, Error> {
        if self.options.duties != Duties::Clerk {
            return Ok(Vec::new());
        }
        let job = self.desk.load(id).await?;
        let owners: BTreeSet<OwnerId> = job.attempts.iter().map(|attempt| attempt.owner.clone()).collect();
        Ok(owners.into_iter().collect())
    }

    /// Tells the jobs that wait for an ended one, whose outcome cannot be looked up after its removal. Refuses if one of them cannot be told.
    async fn release_dependents(&self, id: JobId, outcome: Outcome) -> Result<(), Error> {
        let desk = &self.desk;
        desk.tell_dependents(id, outcome).await;
        let Some(by) = desk.journal.dependents(id).await?.first().copied() else { return Ok(()) };
        let name = |row: Option<Row>| row.and_then(|row| row.summary.name);
        Err(Error::Awaited {
            job: desk.load(id).await?.called(),
            dependent: by.called(name(desk.row(by).await?).as_deref()),
            by,
        })
    }
}
