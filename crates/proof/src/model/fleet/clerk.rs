//! Clerks of the modelled fleet: each watches beats on a clock of its own, ends lives, waits out the pause, and accounts for jobs whose holder is
//! gone.
//!
//! A look and what follows from it are two steps: anything may happen in between. The lives of clerks themselves are not watched: a clerk
//! registers when it first takes a job of an instance, and is never gone.

use std::sync::Arc;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::{MARGIN_MS, Place};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::{BootTime, Incarnation, Job, OwnerId};
use lastword_store::{Error, Renew, Source};

use super::coverage::Situation;
use super::worker::claim_of;
use super::world::{Clerk, Hand, LEASE_MS, NOW, World, clerk_name};

impl Clerk {
    /// Returns the lives that it may end, each with the beat at which it stands.
    fn over(&self, now: BootTime) -> Vec<(Incarnation, u64)> {
        self.watch.over(MARGIN_MS, now)
    }
}

impl World {
    /// A clerk reads lives, or the pause.
    pub(super) fn see(&mut self, clerk: usize) {
        let (now, instance) = (self.clerk_clock(clerk), self.database.instance());
        let mut lives = self.database.lives();
        lives.retain(|life| !life.owner.0.starts_with("clerk"));
        let known = &mut self.clerks[clerk];
        match instance.settling {
            Some(_) => known.pause.see(instance, now),
            None => {
                known.watch.see(&lives, now);
            }
        }
    }

    /// A clerk reads lives, or the pause, and decides what to end.
    pub(super) fn look(&mut self, clerk: usize) {
        self.see(clerk);
        let (now, instance) = (self.clerk_clock(clerk), self.database.instance());
        let known = &mut self.clerks[clerk];
        if instance.settling.is_some() {
            known.settle = Some(instance).filter(|_| known.pause.is_over(LEASE_MS, MARGIN_MS, now));
            return;
        }
        known.ends = known.over(now);
        if !known.ends.is_empty() {
            self.notes.add(Situation::BeatSeen);
        }
    }

    /// Reports whether a look would lead to an end.
    pub(super) fn would_end(&self, clerk: usize) -> bool {
        let (now, instance, known) = (self.clerk_clock(clerk), self.database.instance(), &self.clerks[clerk]);
        if instance.settling.is_some() {
            let mut pause = known.pause;
            pause.see(instance, now);
            return pause.is_over(LEASE_MS, MARGIN_MS, now);
        }
        known.over(now).iter().any(|(life, beat)| self.database.beat(*life) == Some(*beat))
    }

    /// What a clerk decided to end reaches the journal, which compares.
    pub(super) fn end_what_is_over(&mut self, clerk: usize) {
        let Clerk { is_ahead, .. } = self.clerks[clerk];
        for (life, beat) in std::mem::take(&mut self.clerks[clerk].ends) {
            let present = self.database.beat(life);
            match self.database.end_life(life, beat) {
                Ok(true) => {
                    self.notes.add(Situation::LifeEnded);
                    if is_ahead {
                        self.notes.add(Situation::AheadClerkEnds);
                    }
                }
                Ok(false) if present.is_none() => self.notes.add(Situation::LifeEndedBefore),
                Ok(false) => self.notes.add(Situation::BeatMovedOn),
                Err(_) => self.broken = Some("the end of a life breaks the log"),
            }
        }
        if let Some(pause) = self.clerks[clerk].settle.take() {
            let is_settled = self.database.settle(pause);
            self.notes.add(if is_settled { Situation::Settled } else { Situation::SettledBefore });
        }
    }

    /// A clerk takes a job whose holder is gone, if there is one.
    pub(super) fn sweep(&mut self, clerk: usize) {
        let name = clerk_name(clerk);
        let (owner, at) = (OwnerId(name.into()), Place::new(name, name));
        let mut database = self.database.clone();
        let present = self.clerks[clerk].life.filter(|life| life.instance == database.instance().number);
        let life = present.or_else(|| {
            let (owner, place) = (owner.clone(), at.clone());
            let renew = Renew { owner, place, incarnation: None, lease_ms: LEASE_MS };
            database.renew(&renew).ok().map(|renewed| renewed.incarnation)
        });
        let Some(incarnation) = life else { return };
        let by = Claimant { owner, incarnation, host: at.host.clone(), boot: Some(at.boot.clone()) };
        let claimed = match database.claim(&claim_of(by, Source::Expired)) {
            Err(Error::Corrupt(_)) => {
                self.broken = Some("a claim that breaks the log was let in");
                return;
            }
            taken => taken.ok().and_then(|taken| taken.into_iter().next()),
        };
        // A clerk that takes nothing is as if it had not asked.
        let Some(claimed) = claimed else { return };
        (self.database, self.clerks[clerk].life) = (database, life);
        let Ok(job) = Job::fold(claimed.job, &claimed.events) else {
            self.broken = Some("a log does not fold");
            return;
        };
        self.clerks[clerk].hand = Some(Hand::new(Owner::new(job, claimed.fence, at.host, at.boot, NOW)));
        self.tell_clerk(clerk, Input::Tick);
    }

    fn route_clerk(&mut self, clerk: usize, outputs: Vec<Output>) {
        for output in outputs {
            let Some(hand) = &mut self.clerks[clerk].hand else { return };
            match output {
                Output::Append(append) => hand.sending = Some(Arc::from(append)),
                Output::Load { after } => {
                    let events = self.database.load(after);
                    self.tell_clerk(clerk, Input::Loaded(events));
                }
                Output::Do(_) => self.broken = Some("a clerk was asked to touch a tree"),
                Output::LetGo { .. } => self.clerks[clerk].hand = None,
                Output::Broken(_) => self.broken = Some("an owner found its log broken"),
            }
        }
    }

    fn tell_clerk(&mut self, clerk: usize, input: Input) {
        let Some(hand) = &mut self.clerks[clerk].hand else { return };
        let outputs = hand.step(input);
        self.route_clerk(clerk, outputs);
    }

    /// What a clerk writes about a job reaches the journal.
    pub(super) fn store_of_clerk(&mut self, clerk: usize) {
        let sending = self.clerks[clerk].hand.as_mut().and_then(|hand| hand.sending.take());
        let Some(append) = sending else { return };
        let input = self.stored(&append);
        self.tell_clerk(clerk, input);
    }
}
