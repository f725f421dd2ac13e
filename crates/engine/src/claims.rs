//! Taking jobs: from queues, from holders that are gone, and those that are ours although nobody told us.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lastword_core::decide::claim::Claimant;
use lastword_core::{Append, Job, JobId, Seq};
use lastword_store::siblings::Siblings;
use lastword_store::{Claim, Claimed, Error, Filter, Read, Renew, Source};
use tokio::sync::mpsc;

use crate::job_task::JobTask;
use crate::shared::{Shared, lock};

/// Jobs taken at once: more are taken by the next claim, which follows at once.
const CLAIM_MAX: u32 = 64;

/// Rows read at once while looking for jobs without a task.
const PAGE: u32 = 500;

/// Held by a job task until what was there when it began is found out. Whoever has the other end waits for all of them.
pub(crate) type Pass = mpsc::Sender<()>;

impl<J: Siblings> Shared<J> {
    /// Takes what waits in a queue and has a slot, and starts it.
    pub(crate) async fn take(self: &Arc<Self>, queue: &str) -> Result<(), Error> {
        loop {
            let Some(from) = self.ready_in(queue) else { return Ok(()) };
            if self.claim(from, None).await? < CLAIM_MAX as usize {
                return Ok(());
            }
        }
    }

    /// Returns what may be taken from a queue; none while it is paused.
    fn ready_in(&self, queue: &str) -> Option<Source> {
        let group = self.groups.get(queue).filter(|group| !group.paused)?;
        Some(Source::Ready { queue: queue.to_owned(), slots: group.slots })
    }

    /// Takes everything whose holder is gone, and starts it. Each task holds a `pass`.
    pub(crate) async fn take_over(self: &Arc<Self>, pass: &Pass) -> Result<(), Error> {
        while self.claim(Source::Expired { margin_ms: 0 }, Some(pass)).await? > 0 {}
        Ok(())
    }

    /// Stores an append and takes what waits in a queue after it, with one write where the journal can.
    pub(crate) async fn append_and_take(self: &Arc<Self>, append: Append, queue: &str) -> Result<Seq, Error> {
        let _claims = self.claims.read().await;
        let Some(claim) = self.ready_in(queue).and_then(|from| self.claim_of(from)) else {
            let stored = self.journal.append(append).await;
            // This life may have begun meanwhile.
            self.want(queue);
            self.wake.notify_one();
            return stored;
        };
        let (stored, taken) = self.journal.append_and_claim(append, claim).await;
        match taken {
            Ok(taken) => self.start_all(taken, None),
            Err(error) => {
                self.claim_failed(&error);
                self.want(queue);
                self.wake.notify_one();
            }
        }
        stored
    }

    /// Claims once, and returns how many jobs that brought.
    async fn claim(self: &Arc<Self>, from: Source, pass: Option<&Pass>) -> Result<usize, Error> {
        let _claims = self.claims.read().await;
        let Some(claim) = self.claim_of(from) else { return Ok(0) };
        let taken = match self.journal.claim(claim.clone()).await {
            // The clock may have jumped over the end of the lease, or this machine has slept: nobody has taken our place yet.
            Err(Error::Lapsed { .. }) => {
                self.renew(Some(&claim.by)).await?;
                self.journal.claim(Claim { now: self.now().wall, ..claim }).await
            }
            other => other,
        };
        let taken = taken.inspect_err(|error| self.claim_failed(error))?;
        let count = taken.len();
        self.start_all(taken, pass);
        Ok(count)
    }

    /// Returns a claim of this life; none before it is registered, and none while it goes down.
    fn claim_of(&self, from: Source) -> Option<Claim> {
        let by = lock(&self.claimant).clone().filter(|_| !*self.going_down.borrow())?;
        Some(Claim { by, from, at_most: CLAIM_MAX, now: self.now().wall })
    }

    /// Notes that a claim may have brought something of which nobody was told.
    fn claim_failed(&self, error: &Error) {
        if matches!(error, Error::Unavailable(_)) {
            self.unsure.store(true, Ordering::Relaxed);
        }
    }

    fn start_all(self: &Arc<Self>, taken: Vec<Claimed>, pass: Option<&Pass>) {
        for claimed in taken {
            self.changed(claimed.job);
            self.start(claimed, pass);
        }
    }

    /// Extends the lease of this life, or registers a new one.
    pub(crate) async fn renew(&self, life: Option<&Claimant>) -> Result<Claimant, Error> {
        let renew = Renew {
            owner: self.options.owner.clone(),
            incarnation: life.map(|claimant| claimant.incarnation),
            lease_ms: self.options.lease_ms,
            now: self.now().wall,
        };
        let renewed = self.journal.renew(renew).await?;
        for job in &renewed.news {
            self.tasks.nudge(*job);
        }
        Ok(Claimant {
            owner: self.options.owner.clone(),
            incarnation: renewed.incarnation,
            host: self.options.host.clone(),
            boot: Some(self.trees.boot()),
        })
    }

    /// Starts what is ours in the journal and has no task: the answer to its claim was lost.
    pub(crate) async fn start_held(self: &Arc<Self>) -> Result<(), Error> {
        let _claims = self.claims.write().await;
        let Some(by) = lock(&self.claimant).clone() else { return Ok(()) };
        let mut before = None;
        loop {
            let filter = Filter { holder: Some(by.incarnation), ..Filter::default() };
            let rows = self.journal.read(Read::Rows { filter, before, limit: PAGE }).await?.rows();
            for row in &rows {
                if !self.tasks.has(row.job) && !lock(&self.broken).contains(&row.job) {
                    self.start_one_held(row.job, &by).await?;
                }
            }
            match rows.last() {
                Some(row) if rows.len() == PAGE as usize => before = Some(row.job),
                _ => return Ok(()),
            }
        }
    }

    async fn start_one_held(self: &Arc<Self>, id: JobId, by: &Claimant) -> Result<(), Error> {
        let events = self.journal.load(id, Seq(0)).await?;
        // One that cannot be read goes the same way: the task that cannot be made says so.
        let fence = Job::fold(id, &events).ok().and_then(|job| job.holder).map(|holder| holder.fence);
        if let Some(fence) = fence.filter(|fence| fence.incarnation == by.incarnation) {
            self.start(Claimed { job: id, events, fence }, None);
        }
        Ok(())
    }

    /// Starts the task of a job that was taken.
    fn start(self: &Arc<Self>, claimed: Claimed, pass: Option<&Pass>) {
        let id = claimed.job;
        let mailbox = self.tasks.add(id);
        let task = match JobTask::new(Arc::clone(self), &claimed, Arc::clone(&mailbox), pass.cloned()) {
            Ok(task) => task,
            Err(illegal) => {
                lock(&self.broken).insert(id);
                self.tasks.remove(id, &mailbox);
                let next =
                    "nothing of it is touched any more: restore the journal from a copy, or abandon the job";
                return self.trouble(Some(id), format!("its log cannot be read: {illegal}"), next);
            }
        };
        let running = tokio::spawn(Box::new(task).run());
        self.tasks.started(id, &mailbox, running.abort_handle());
    }
}
