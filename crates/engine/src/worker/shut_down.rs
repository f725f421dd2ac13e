//! Shutdown: nothing more is claimed, writes under way are finished, and trees stay alive unless jobs are to be cancelled.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::JobId;
use lastword_core::decide::shut_down;
use lastword_core::view::row::Row;
use lastword_store::Store;
use tokio::time::timeout;

use super::Worker;
use crate::lock::lock;
use crate::{Duties, Error, Jobs};

/// How long writes under way may take. An unavailable journal takes longer, and is not waited for.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// How often to check for jobs whose task left before the cancel.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

impl<J: Store> Worker<J> {
    /// Shuts down. Returns once nothing more is written; with [`Jobs::Cancel`], once every job has its last word; with
    /// [`Jobs::Finish`], once no job is held. A shutdown that keeps jobs can still be turned into one that cancels them until this has returned.
    pub(crate) async fn shut_down(self: &Arc<Self>, jobs: Jobs) -> Result<(), Error> {
        let tasks = &self.desk.agenda.tasks;
        self.going_down.send_replace(true);
        // Claims under way have their tasks after this, and no claim follows.
        match jobs {
            Jobs::Cancel | Jobs::Finish => drop(self.claims.write().await),
            // A claim that the journal does not answer is left to the next life.
            Jobs::Keep => drop(timeout(FINISH_MAX, self.claims.write()).await),
        }
        if jobs == Jobs::Cancel {
            if self.life().is_none() {
                return Err(Error::GoingDown);
            }
            tasks.mailboxes(None).iter().for_each(|(_, mailbox)| mailbox.stay());
            self.cancel_all().await?;
        }
        if jobs == Jobs::Finish {
            for (_, mailbox) in tasks.mailboxes(None) {
                mailbox.until_settled(|| mailbox.is_over()).await;
            }
        }
        let tasks = tasks.mailboxes(None);
        for (_, mailbox) in &tasks {
            mailbox.leave();
        }
        let over = async {
            for (_, mailbox) in &tasks {
                mailbox.until_settled(|| mailbox.is_over()).await;
            }
        };
        // A task that is not over by then writes at most one append, which counts or does not.
        let _ = timeout(FINISH_MAX, over).await;
        self.end_life().await
    }

    /// Cancels every live job with the shutdown as its cause, and waits for their last words.
    async fn cancel_all(self: &Arc<Self>) -> Result<(), Error> {
        let owner = &self.options.owner;
        let mut changes = self.desk.changes.subscribe();
        for id in self.live().await? {
            self.desk.request(id, None, |job| shut_down::cancel(job, owner, self.desk.now().wall)).await?;
        }
        loop {
            // Jobs whose task had left already, because jobs were to be kept at first.
            self.start_held().await?;
            if self.live().await?.is_empty() {
                return Ok(());
            }
            // Lagging is fine: everything is read again anyway.
            let _ = timeout(CHECK_INTERVAL, changes.recv()).await;
            while changes.try_recv().is_ok() {}
        }
    }

    /// Returns every live job that is for this owner to end.
    async fn live(&self) -> Result<Vec<JobId>, Error> {
        // What waits in a journal of one host waits for this daemon alone.
        let is_shared = self.desk.journal.is_shared();
        let is_ours = |row: &Row| match &row.holder {
            Some(fence) => fence.owner == self.options.owner,
            None => !is_shared,
        };
        let life = self.life().filter(|_| self.options.duties == Duties::Worker);
        if let Some(life) = life {
            return Ok(self.desk.journal.held(life.incarnation, None, u32::MAX).await?);
        }
        let rows = self.desk.live_rows().await?;
        Ok(rows.into_iter().filter(is_ours).map(|row| row.job).collect())
    }

    /// Ends this life if it holds nothing. Otherwise its trees live on under its lease, and the next life of this owner takes them over.
    async fn end_life(&self) -> Result<(), Error> {
        let Some(present) = lock(&self.life).clone() else { return Ok(()) };
        let (life, journal) = (present.claimant.incarnation, &self.desk.journal);
        let end = async {
            match journal.held(life, None, 1).await?.is_empty() {
                true => journal.end_life(life, present.beat).await,
                false => Ok(false),
            }
        };
        timeout(FINISH_MAX, end).await.map_err(|_| {
            let why = format!("no answer within {} s", FINISH_MAX.as_secs());
            Error::Journal(lastword_store::Error::Unavailable(why))
        })??;
        *lock(&self.life) = None;
        Ok(())
    }
}
