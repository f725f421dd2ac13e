//! Workers of the modelled fleet: each registers, renews, claims, and drives the production owner's step for the job that it holds.

use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::life::{deadline, has_run_out};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::report::Report;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, AttemptNo, BootTime, Fence, Incarnation, Job};
use lastword_store::{Claim, Claimed, Error, Renew, Renewed, Source};

use super::coverage::Situation;
use super::database::{AT, Stored, job_id};
use super::world::{CLONE, Call, Errand, Hand, LEASE_MS, NOW, ORIGINAL, OwnLife, World, place, worker_name};

impl World {
    /// Reports whether the lease of a worker's life has run out for it.
    pub(super) fn has_run_out(&self, worker: usize) -> bool {
        self.workers[worker].life.is_some_and(|life| has_run_out(life.deadline, self.clock(worker)))
    }

    /// Reports whether a worker can do something.
    pub(super) fn is_up(&self, worker: usize) -> bool {
        let known = &self.workers[worker];
        !known.is_down && !known.is_frozen
    }

    /// Reports whether a worker has to register.
    pub(super) fn needs_life(&self, worker: usize) -> bool {
        self.workers[worker].life.is_none() || self.has_run_out(worker)
    }

    fn renewal(worker: usize, life: Option<Incarnation>) -> Renew {
        Renew { owner: worker_name(worker), place: place(worker), incarnation: life, lease_ms: LEASE_MS }
    }

    /// A renewal or a registration reaches the journal.
    fn store_renewal(&mut self, worker: usize, life: Option<Incarnation>) -> Result<Renewed, ()> {
        let is_foreign = life.is_some_and(|life| life.instance != self.database.instance().number);
        let renewed = self.database.renew(&World::renewal(worker, life));
        match &renewed {
            Ok(renewed) if worker == CLONE && life.is_none() => {
                self.notes.add(Situation::CloneRegistered);
                debug_assert_eq!(renewed.beat, 0);
            }
            Err(Error::Taken { .. }) if worker == CLONE => self.notes.add(Situation::CloneRefused),
            Err(Error::Taken { .. }) if worker == ORIGINAL => self.notes.add(Situation::OriginalRefused),
            Err(Error::Lapsed { .. }) if is_foreign => self.notes.add(Situation::LifeOfEarlierInstance),
            Err(Error::Lapsed { .. }) => self.notes.add(Situation::RenewalTooLate),
            _ => {}
        }
        renewed.map_err(|_| ())
    }

    /// The answer to a renewal that was sent at `sent` reaches its worker. The lease counts from before it was sent.
    fn renewed(
        &mut self,
        worker: usize,
        sent: BootTime,
        life: Option<Incarnation>,
        answer: Result<Renewed, ()>,
    ) {
        let clock = self.clock(worker);
        let known = &mut self.workers[worker];
        let Ok(renewed) = answer else {
            known.life = known.life.filter(|present| life.is_none() || Some(present.incarnation) != life);
            return;
        };
        let until = deadline(sent, LEASE_MS);
        if until <= clock {
            self.notes.add(Situation::AnswerTooLate);
        }
        let Renewed { incarnation, settling, .. } = renewed;
        known.life = Some(OwnLife { incarnation, deadline: until, settling });
        self.leases.insert((worker, incarnation), until);
    }

    /// Registers, or renews, at once.
    pub(super) fn call_at_once(&mut self, worker: usize) {
        let life = self.to_renew(worker);
        if life.is_none() && self.workers[worker].life.is_some() {
            self.notes.add(Situation::LeaseRanOut);
        }
        let sent = self.clock(worker);
        let answer = self.store_renewal(worker, life);
        self.renewed(worker, sent, life, answer);
    }

    /// Returns the life to renew. One whose lease ran out is not renewed: the worker registers another one.
    fn to_renew(&self, worker: usize) -> Option<Incarnation> {
        self.workers[worker].life.filter(|_| !self.has_run_out(worker)).map(|life| life.incarnation)
    }

    /// A renewal or a registration is sent, and takes its time.
    pub(super) fn hang(&mut self, worker: usize) {
        let (sent, life) = (self.clock(worker), self.to_renew(worker));
        self.workers[worker].call = Some(Call { sent, life, answer: None });
    }

    /// A call that took its time reaches the journal.
    pub(super) fn deliver_call(&mut self, worker: usize) {
        let Some(mut call) = self.workers[worker].call.take() else { return };
        call.answer = Some(self.store_renewal(worker, call.life));
        self.workers[worker].call = Some(call);
    }

    /// The answer to a call that took its time reaches its worker.
    pub(super) fn answer_call(&mut self, worker: usize) {
        let Some(Call { sent, life, answer: Some(answer) }) = self.workers[worker].call.take() else {
            return;
        };
        self.renewed(worker, sent, life, answer);
    }

    /// Asks for a job that is ready.
    pub(super) fn claim(&mut self, worker: usize) {
        let from = Source::Ready { group: "q".to_owned(), slots: None };
        if !self.take(worker, from) && self.database.instance().settling.is_some() {
            self.notes.add(Situation::NothingInPause);
        }
    }

    /// Asks for a job whose holder is gone: in the pause, for one whose tree is alive here.
    pub(super) fn take_over(&mut self, worker: usize) {
        let here = self.keepers.iter().filter(|((host, _), keeper)| *host == worker && keeper.is_alive());
        let trees: Vec<_> = here.map(|((_, attempt), _)| (job_id(), AttemptNo(*attempt))).collect();
        let pauses = self.workers[worker].life.is_some_and(|life| life.settling);
        if pauses && !trees.is_empty() && self.take(worker, Source::Alive { trees }) {
            return;
        }
        self.take(worker, Source::Expired);
    }

    /// Claims, and reports whether that brought the job.
    fn take(&mut self, worker: usize, from: Source) -> bool {
        let Some(by) = self.claimant(worker).filter(|_| !self.has_run_out(worker)) else { return false };
        match self.database.claim(&claim_of(by, from)) {
            Err(Error::Corrupt(_)) => self.broken = Some("a claim that breaks the log was let in"),
            Err(_) => self.workers[worker].life = None,
            Ok(taken) => {
                if let Some(claimed) = taken.into_iter().next() {
                    self.take_up(worker, claimed);
                    return true;
                }
            }
        }
        false
    }

    fn take_up(&mut self, worker: usize, claimed: Claimed) {
        let Ok(job) = Job::fold(claimed.job, &claimed.events) else {
            self.broken = Some("a log does not fold");
            return;
        };
        self.drop_hand(worker);
        let at = place(worker);
        self.workers[worker].hand = Some(Hand::new(Owner::new(job, claimed.fence, at.host, at.boot, NOW)));
        self.tell(worker, Input::Tick);
    }

    /// The task of a claim ends. A launch may be on its way to the nursery; anything else ends with the task.
    fn drop_hand(&mut self, worker: usize) {
        let known = &mut self.workers[worker];
        known.errands.retain(|errand| matches!(errand.effect, Effect::Launch { .. }) && !errand.is_sent);
        known.hand = None;
    }

    /// Gives an input to the owner's step of a worker.
    pub(super) fn tell(&mut self, worker: usize, input: Input) {
        let Some(hand) = &mut self.workers[worker].hand else { return };
        let outputs = hand.step(input);
        self.route(worker, outputs);
    }

    fn route(&mut self, worker: usize, outputs: Vec<Output>) {
        for output in outputs {
            let Some(hand) = &mut self.workers[worker].hand else { return };
            match output {
                Output::Append(append) => hand.sending = Some(Arc::from(append)),
                Output::Load { after } => {
                    let events = self.database.load(after);
                    self.tell(worker, Input::Loaded(events));
                }
                Output::Do(Effect::Watch { attempt }) => hand.watching = Some(attempt.0),
                Output::Do(effect) if effect.is_exclusive() => {
                    let Fence { epoch, incarnation: under, .. } = *hand.owner.fence();
                    self.workers[worker].errands.push(Errand { effect, epoch, under, is_sent: false });
                }
                // Deadlines and the like change nothing about which trees live.
                Output::Do(_) => {}
                Output::LetGo { .. } => self.drop_hand(worker),
                Output::Broken(_) => self.broken = Some("an owner found its log broken"),
            }
        }
    }

    /// The append of a worker's owner reaches the journal, and the answer reaches the owner.
    pub(super) fn store(&mut self, worker: usize) {
        let Some(append) = self.workers[worker].hand.as_mut().and_then(|hand| hand.sending.take()) else {
            return;
        };
        let input = self.stored(&append);
        if input == Input::Fenced {
            self.notes.add(Situation::Fenced);
        }
        self.tell(worker, input);
    }

    /// The same, and the answer gets lost.
    pub(super) fn store_unanswered(&mut self, worker: usize) {
        let sending = self.workers[worker].hand.as_ref().and_then(|hand| hand.sending.clone());
        let Some(append) = sending else { return };
        self.stored(&append);
        if let Some(hand) = &mut self.workers[worker].hand {
            (hand.sending, hand.is_unanswered) = (None, true);
        }
    }

    /// The owner repeats what was not answered.
    pub(super) fn repeat(&mut self, worker: usize) {
        if let Some(hand) = &mut self.workers[worker].hand {
            hand.is_unanswered = false;
        }
        self.tell(worker, Input::Unavailable);
        self.tell(worker, Input::Tick);
    }

    /// An append reaches the journal; returns what its owner is told. A success must count.
    pub(super) fn stored(&mut self, append: &Append) -> Input {
        let is_foreign = append
            .fence
            .as_ref()
            .is_some_and(|fence| fence.incarnation.instance != self.database.instance().number);
        let is_there = self.database.load(append.expected).starts_with(&append.events);
        match self.database.append(append) {
            Ok(stored) => {
                if !self.database.counts(append) {
                    self.broken = Some("a write that does not count was answered with success");
                }
                if stored == Stored::Before {
                    self.notes.add(Situation::RepeatStored);
                }
                Input::Stored
            }
            Err(Error::Conflict { .. }) => Input::Conflict,
            Err(Error::Fenced { .. }) => {
                if is_foreign {
                    self.notes.add(Situation::AppendOfEarlierInstance);
                }
                if is_foreign && is_there {
                    self.notes.add(Situation::RepeatOfEarlierInstance);
                }
                Input::Fenced
            }
            Err(_) => {
                self.broken = Some("an append that breaks the log was let in");
                Input::Unavailable
            }
        }
    }

    /// An effect is carried out; its report reaches the owner, unless another claim replaced that one.
    pub(super) fn carry_out(&mut self, worker: usize, n: usize) {
        let mut errand = self.workers[worker].errands.remove(n);
        let report = match errand.effect {
            Effect::Launch { attempt } if errand.is_sent => self.launched(worker, attempt.0),
            Effect::Launch { attempt } => {
                self.note_launch(worker, &errand);
                self.launch(worker, attempt.0, &errand)
            }
            Effect::Locate { attempt } => self.locate(worker, attempt.0, &errand),
            _ => return,
        };
        match report {
            Some(report) => self.report(worker, &errand, report),
            None => {
                errand.is_sent = matches!(errand.effect, Effect::Launch { .. });
                self.workers[worker].errands.push(errand);
            }
        }
    }

    fn note_launch(&mut self, worker: usize, errand: &Errand) {
        if self.is_lease_over(worker, errand.under) {
            self.notes.add(Situation::LaunchAfterFreeze);
        }
        if !self.is_of_hand(worker, errand) {
            self.notes.add(Situation::LaunchOfFormerClaim);
        }
    }

    fn is_of_hand(&self, worker: usize, errand: &Errand) -> bool {
        let hand = self.workers[worker].hand.as_ref().map(|hand| hand.owner.fence());
        hand.is_some_and(|fence| fence.epoch == errand.epoch && fence.incarnation == errand.under)
    }

    fn report(&mut self, worker: usize, errand: &Errand, report: Report) {
        if self.is_of_hand(worker, errand) {
            self.tell(worker, Input::Report(report));
        }
    }

    /// The owner hears that the tree it watches is empty.
    pub(super) fn notice(&mut self, worker: usize) {
        let Some(attempt) = self.workers[worker].hand.as_ref().and_then(|hand| hand.watching) else { return };
        if let Some(report) = self.emptied(worker, attempt) {
            if let Some(hand) = &mut self.workers[worker].hand {
                hand.watching = None;
            }
            self.tell(worker, Input::Report(report));
        }
    }
}

/// Returns a claim of one job.
pub(super) fn claim_of(by: lastword_core::decide::claim::Claimant, from: Source) -> Claim {
    Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now: AT }
}
