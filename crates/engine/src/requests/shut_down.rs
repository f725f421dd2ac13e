//! `shut down`: nothing more is taken, what is under way is finished, and trees go on unless they are to be taken along.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::JobId;
use lastword_core::decide::cancel;
use lastword_core::decide::cancel::Cancel;
use lastword_core::outcome::Asked;
use lastword_store::Renew;
use lastword_store::siblings::Siblings;
use tokio::time::timeout;

use crate::shared::{Shared, lock};
use crate::{Engine, Error, Jobs};

/// How long what is under way may take. A journal that is away answers later than that, and is not waited for.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// How often it is looked for jobs that have left before they were to be cancelled.
const LOOK: Duration = Duration::from_millis(500);

impl<J: Siblings> Engine<J> {
    /// Goes down. Returns once nothing more is written: with [`Jobs::Cancel`], once every job has its last word. Jobs that were
    /// to be kept may still be cancelled until this has returned.
    pub async fn shut_down(&self, jobs: Jobs) -> Result<(), Error> {
        let shared = &self.shared;
        shared.going_down.send_replace(true);
        // A claim that is under way has its tasks after this, and there is none after that.
        drop(shared.claims.write().await);
        if jobs == Jobs::Cancel {
            if lock(&shared.claimant).is_none() {
                return Err(Error::GoingDown);
            }
            shared.tasks.mailboxes(None).iter().for_each(|(_, mailbox)| mailbox.stay());
            shared.cancel_all().await?;
        }
        let tasks = shared.tasks.mailboxes(None);
        for (_, mailbox) in &tasks {
            mailbox.leave();
        }
        let over = async {
            for (_, mailbox) in &tasks {
                mailbox.until_settled(|| mailbox.is_over()).await;
            }
        };
        // Who is not over by then writes no more than one append, which counts or does not.
        let _ = timeout(FINISH_MAX, over).await;
        shared.end_lease().await
    }
}

impl<J: Siblings> Shared<J> {
    /// Cancels every job that is not over, in the name of the shutdown, and waits for their last words.
    async fn cancel_all(self: &Arc<Self>) -> Result<(), Error> {
        let by = self.options.owner.to_string();
        let wish = Cancel { by, asked: Asked::Shutdown, force: false };
        let mut changes = self.changes.subscribe();
        for id in self.live().await? {
            self.request(id, self.append_id()?, |job| cancel::decide(job, &wish, self.now().wall)).await?;
        }
        loop {
            // Those that had left already, because jobs were to be kept at first.
            self.start_held().await?;
            if self.live().await?.is_empty() {
                return Ok(());
            }
            // Whoever lags behind looks at all, as we do; many changes are one reason to look.
            let _ = timeout(LOOK, changes.recv()).await;
            while changes.try_recv().is_ok() {}
        }
    }

    /// Returns every job that is not over.
    async fn live(&self) -> Result<Vec<JobId>, Error> {
        Ok(self.live_rows().await?.into_iter().map(|row| row.job).collect())
    }

    /// Ends the lease, so that the next life need not wait for its end.
    async fn end_lease(&self) -> Result<(), Error> {
        let Some(life) = lock(&self.claimant).clone() else { return Ok(()) };
        let renew = Renew {
            owner: life.owner,
            incarnation: Some(life.incarnation),
            lease_ms: 0,
            now: self.now().wall,
        };
        self.journal.renew(renew).await?;
        *lock(&self.claimant) = None;
        Ok(())
    }
}
