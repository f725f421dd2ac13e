//! `remove` and `prune`: what has ended goes, with all that was kept of it.

use std::sync::Arc;

use lastword_core::decide::Refusal;
use lastword_core::{JobId, Timestamp};
use lastword_store::Read;
use lastword_store::siblings::{self, Removal, Siblings};

use crate::shared::Shared;
use crate::{Engine, Error, Prune, Pruned};

/// Jobs looked at in one go.
const PAGE: u32 = 256;

impl<J: Siblings> Engine<J> {
    /// Removes an ended job: its log, its row, its recordings.
    pub async fn remove(&self, id: JobId) -> Result<(), Error> {
        self.shared.remove(id).await
    }

    /// Removes ended jobs that are old enough. Results that nobody has read stay, unless that was asked for; how many is said.
    pub async fn prune(&self, which: &Prune) -> Result<Pruned, Error> {
        let before = Timestamp(self.shared.now().wall.0.saturating_sub(which.older_than_ms));
        let mut pruned = Pruned::default();
        loop {
            let limit = if which.dry_run { u32::MAX } else { PAGE };
            let prune = siblings::Prune { before, unread: which.unread, limit };
            let found = self.shared.journal.prunable(prune).await?;
            pruned.kept_unread = found.kept_unread;
            if which.dry_run {
                pruned.removed = found.jobs;
                return Ok(pruned);
            }
            if found.jobs.is_empty() {
                return Ok(pruned);
            }
            for id in found.jobs {
                self.shared.remove(id).await?;
                pruned.removed.push(id);
            }
        }
    }
}

impl<J: Siblings> Shared<J> {
    async fn remove(self: &Arc<Self>, id: JobId) -> Result<(), Error> {
        let row = self.journal.read(Read::Row(id)).await?.rows().pop();
        let outcome = match row {
            None => return Err(Refusal::NotFound(id).into()),
            Some(row) => row.outcome.ok_or(Refusal::NotEnded(id))?,
        };
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
