//! Claims: jobs from groups, jobs whose holder is gone, and jobs that are ours although the answer to their claim was lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::{Place, deadline};
use lastword_core::{Append, Fact, Incarnation, Job, JobId, Seq};
use lastword_store::{Claim, Claimed, Error, Renew, Renewed, Source, Store};

use super::job_task::{JobTask, Pass};
use tokio::time::Instant;

use super::{Present, Worker};
use crate::lock::lock;

/// Jobs per claim; the next claim follows at once.
const CLAIM_MAX: u32 = 64;

/// Ids read at once.
const PAGE: u32 = 500;

impl<J: Store> Worker<J> {
    /// Claims the ready jobs of a group as far as it has slots, and starts them.
    pub(super) async fn take(self: &Arc<Self>, group: &str) -> Result<(), Error> {
        loop {
            let Some(from) = self.ready_in(group) else { return Ok(()) };
            let reserved = self.slots.reserve(&self.desk.agenda, CLAIM_MAX);
            let taken = match reserved.count() {
                0 => 0,
                free => self.claim(from, free, None).await?,
            };
            reserved.note(group, taken);
            if taken < CLAIM_MAX as usize {
                return Ok(());
            }
        }
    }

    /// Returns what can be claimed from a group; none while it is paused.
    fn ready_in(&self, name: &str) -> Option<Source> {
        let group = self.desk.groups.get(name).filter(|group| !group.paused)?;
        Some(Source::Ready { group: name.to_owned(), slots: group.slots })
    }

    /// Claims every job whose holder is gone, and starts it. Each task holds a `pass`. While the journal pauses, these are the jobs whose trees
    /// are alive here: their keepers follow the lease of the life before, which runs out.
    pub(super) async fn take_over(self: &Arc<Self>, pass: &Pass) -> Result<(), Error> {
        let is_settling = lock(&self.life).as_ref().is_some_and(|present| present.settling);
        if is_settling {
            for trees in self.host.kept().chunks(CLAIM_MAX as usize) {
                self.claim(Source::Alive { trees: trees.to_vec() }, CLAIM_MAX, Some(pass)).await?;
            }
        }
        while self.claim(Source::Expired, CLAIM_MAX, Some(pass)).await? > 0 {}
        Ok(())
    }

    /// Stores an append and claims from its group after it, in one write where the journal can.
    pub(crate) async fn append_and_take(self: &Arc<Self>, append: Append, group: &str) -> Result<Seq, Error> {
        let _claims = self.claims.read().await;
        let reserved = self.slots.reserve(&self.desk.agenda, CLAIM_MAX);
        let from = self.ready_in(group).filter(|_| reserved.count() > 0);
        let Some(claim) = from.and_then(|from| self.claim_of(from, reserved.count())) else {
            let stored = self.desk.journal.append(append).await;
            // This life may have registered meanwhile.
            self.desk.agenda.claim(group);
            self.desk.agenda.wake();
            return stored;
        };
        let (stored, taken) = self.desk.journal.append_and_claim(append, claim).await;
        match taken {
            Ok(taken) => {
                reserved.note(group, taken.len());
                self.start_all(taken, None);
            }
            Err(error) => {
                self.claim_failed(&error);
                self.desk.agenda.claim(group);
                self.desk.agenda.wake();
            }
        }
        stored
    }

    /// Claims once, and returns how many jobs that brought.
    async fn claim(
        self: &Arc<Self>,
        from: Source,
        at_most: u32,
        pass: Option<&Pass>,
    ) -> Result<usize, Error> {
        let _claims = self.claims.read().await;
        let Some(claim) = self.claim_of(from, at_most) else { return Ok(0) };
        let taken = self.desk.journal.claim(claim).await.inspect_err(|error| self.claim_failed(error))?;
        let count = taken.len();
        self.start_all(taken, pass);
        Ok(count)
    }

    /// Returns a claim of this life; none before it is registered or after its lease has run out, and none during a shutdown.
    fn claim_of(&self, from: Source, at_most: u32) -> Option<Claim> {
        let by = self.life().filter(|_| !self.is_going_down() && !self.has_run_out())?;
        let labels = self.options.labels.clone();
        Some(Claim { by, from, labels, at_most, now: self.desk.now().wall })
    }

    /// Asks for a sweep if a claim may have counted although its answer was lost.
    fn claim_failed(&self, error: &Error) {
        if matches!(error, Error::Unavailable(_)) {
            self.desk.agenda.ask_for_sweep();
        }
    }

    fn start_all(self: &Arc<Self>, taken: Vec<Claimed>, pass: Option<&Pass>) {
        for claimed in taken {
            self.desk.changes.announce(claimed.job);
            let wakes = claimed.events.last().is_some_and(|event| matches!(event.fact, Fact::Woken(_)));
            if wakes && self.desk.agenda.tasks.has(claimed.job) {
                // It has a task, which reads that it has a slot again.
                self.desk.agenda.tasks.wake(claimed.job);
            } else {
                self.start(claimed, pass);
            }
        }
    }

    /// Renews the lease of a life, or registers a new one, which is the present one from then on.
    pub(super) async fn renew(&self, life: Option<Incarnation>) -> Result<(), Error> {
        let (owner, lease_ms) = (self.options.owner.clone(), self.options.lease_ms);
        let place = Place { host: self.options.host.clone(), boot: self.host.boot() };
        // Before it is sent: the journal stores it later, and others count from later still.
        let (sent, sent_at) = (self.desk.since_boot(), Instant::now());
        let renew = Renew { owner: owner.clone(), place: place.clone(), incarnation: life, lease_ms };
        let Renewed { incarnation, beat, news, settling } = self.desk.journal.renew(renew).await?;
        let claimant = Claimant { owner, incarnation, host: place.host, boot: Some(place.boot) };
        let deadline = deadline(sent, lease_ms);
        // Keepers first: nothing is launched under a lease that they cannot read.
        if let Err(error) = self.host.extend_lease(incarnation, deadline.0).await {
            let what = format!("the lease of its trees cannot be written: {error}");
            self.desk.troubles.add(None, what, "make room: they are ended when the lease is over");
            // Trees of the life before would be told to follow a file that is not there, and end at once. They have the lease of that life.
            if life.is_none() {
                return Err(Error::Unavailable(format!(
                    "the lease of a new life cannot be written: {error}"
                )));
            }
        }
        let present = Present { claimant, beat, deadline, sent: sent_at, settling };
        let mut slot = lock(&self.life);
        // If the answer comes after the lease before has run out, this life could not claim meanwhile, although it goes on.
        let could_claim = life.is_some() && slot.as_ref().is_some_and(|before| !self.is_over(before));
        match life {
            None => {
                *slot = Some(present);
                self.lapsed.store(false, Ordering::Relaxed);
                self.registered.notify_one();
            }
            // Another life may have begun before the answer came.
            Some(_) if slot.as_ref().is_none_or(|slot| slot.claimant.incarnation != incarnation) => {}
            Some(_) => *slot = Some(present),
        }
        drop(slot);
        if !could_claim {
            // What it heard until now is forgotten, and its server does not tell it again before it asks.
            self.desk.agenda.ask_for_sweep();
            self.desk.agenda.wake();
        }
        for job in news {
            self.desk.agenda.tasks.nudge(job);
        }
        Ok(())
    }

    /// Starts the jobs that are ours in the journal and have no task: the answer to their claim was lost.
    pub(super) async fn start_held(self: &Arc<Self>) -> Result<(), Error> {
        let _claims = self.claims.write().await;
        let Some(by) = self.life() else { return Ok(()) };
        let mut after = None;
        loop {
            let held = self.desk.journal.held(by.incarnation, after, PAGE).await?;
            for id in &held {
                if !self.desk.agenda.tasks.has(*id) && !lock(&self.broken).contains(id) {
                    self.start_one_held(*id, &by).await?;
                }
            }
            match held.last() {
                Some(last) if held.len() == PAGE as usize => after = Some(*last),
                _ => return Ok(()),
            }
        }
    }

    async fn start_one_held(self: &Arc<Self>, id: JobId, by: &Claimant) -> Result<(), Error> {
        let events = self.desk.journal.load(id, Seq(0)).await?;
        // An unreadable log has no fence and is skipped.
        let fence = Job::fold(id, &events).ok().and_then(|job| job.holder).map(|holder| holder.fence);
        if let Some(fence) = fence.filter(|fence| fence.incarnation == by.incarnation) {
            self.start(Claimed { job: id, events, fence }, None);
        }
        Ok(())
    }

    /// Starts the task of a job that was taken.
    fn start(self: &Arc<Self>, claimed: Claimed, pass: Option<&Pass>) {
        let id = claimed.job;
        let mailbox = self.desk.agenda.tasks.add(id);
        let task = match JobTask::new(Arc::clone(self), &claimed, Arc::clone(&mailbox), pass.cloned()) {
            Ok(task) => task,
            Err(illegal) => {
                lock(&self.broken).insert(id);
                self.desk.agenda.tasks.remove(id, &mailbox);
                let next = "it is left alone: restore the journal from a backup, or abandon the job";
                let what = format!("its log cannot be read: {illegal}");
                return self.desk.troubles.add(Some(id), what, next);
            }
        };
        let name = task.name();
        let running = tokio::spawn(Box::new(task).run());
        self.desk.agenda.tasks.started(id, &mailbox, name, running.abort_handle());
    }
}
