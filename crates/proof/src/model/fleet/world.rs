//! The state of the modelled fleet: hosts with a worker each, two clerks, the database, keepers with their trees.
//!
//! Time is a count of ticks. Each host and each clerk has a clock of its own, which began somewhere else. Two states are the same if the same
//! can happen from then on: hashes have ages instead of times, and whether a beat has changed instead of its value.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lastword_core::decide::claim::Claimant;
use lastword_core::effects::Effect;
use lastword_core::life::{MARGIN_MS, PauseWatch, Place, STOP_MS, Watch, deadline};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::{Append, Awake, BootTime, Epoch, HostId, Incarnation, Now, OwnerId};
use lastword_store::{Instance, Renewed};

use super::attempt::Keeper;
use super::coverage::Notes;
use super::database::{AT, Database};

/// A tick is the time that keepers have to end their trees.
pub(super) const TICK_MS: u64 = STOP_MS;

/// The lease of every life.
pub(super) const LEASE_MS: u64 = 3 * TICK_MS;

/// Ticks after the end of a lease at which a keeper has ended its tree at the latest. One tick of the margin is left for a clerk whose clock
/// runs fast.
pub(super) const LATE: u64 = 1;

/// Ticks after which nothing changes for a process that waits.
const HORIZON: u64 = (LEASE_MS + MARGIN_MS) / TICK_MS;

/// The hosts: the third is the clone of the first, in another boot. Its worker has the same name.
const HOSTS: [(&str, &str, &str); 3] = [("a", "a1", "one"), ("b", "b1", "two"), ("a", "a2", "one")];

/// The host that can be cloned, and its clone.
pub(super) const ORIGINAL: usize = 0;
pub(super) const CLONE: usize = 2;

/// How often each fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// A worker is frozen, or a renewal hangs.
    pub(super) stalls: u8,
    /// A worker is killed.
    pub(super) crashes: u8,
    /// The answer to an append is lost.
    pub(super) losses: u8,
    /// The standby is promoted.
    pub(super) failovers: u8,
    /// The first host is cloned.
    pub(super) clones: u8,
    /// A shim is frozen, or a guard is killed.
    pub(super) keepers: u8,
    /// The clock of a clerk runs a tick ahead.
    pub(super) drifts: u8,
    /// The second clerk looks when it likes. Otherwise both see every beat as soon as it stands: the earlier one sees it, the earlier it may
    /// end the life.
    pub(super) is_lazy: bool,
    /// Attempts that the job may have, without those that never started.
    pub(super) attempts: u32,
}

/// Everything there is.
#[derive(Clone)]
pub(super) struct World {
    pub(super) now: u64,
    /// The faults that may still strike.
    pub(super) left: Bounds,
    pub(super) database: Database,
    /// One for each host.
    pub(super) workers: Vec<Worker>,
    pub(super) clerks: Vec<Clerk>,
    /// The folders of attempts: host and number of the attempt.
    pub(super) keepers: BTreeMap<(usize, u32), Keeper>,
    /// The lease files of a host.
    pub(super) leases: BTreeMap<(usize, Incarnation), BootTime>,
    /// A rule that was broken at the moment it was.
    pub(super) broken: Option<&'static str>,
    /// The named situations of the step that led here. Not a part of the state.
    pub(super) notes: Notes,
}

/// The worker of a host.
#[derive(Clone, Default)]
pub(super) struct Worker {
    pub(super) is_down: bool,
    pub(super) is_frozen: bool,
    pub(super) life: Option<OwnLife>,
    /// A renewal or registration that takes its time.
    pub(super) call: Option<Call>,
    pub(super) hand: Option<Hand>,
    /// Effects that were asked for and not reported on, also those of a claim that this worker has replaced.
    pub(super) errands: Vec<Errand>,
}

/// The life of a worker as it counts it itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OwnLife {
    pub(super) incarnation: Incarnation,
    pub(super) deadline: BootTime,
    /// Whether the journal paused when it was renewed.
    pub(super) settling: bool,
}

/// A call that is on its way.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) sent: BootTime,
    /// The life that it renews; `None` registers.
    pub(super) life: Option<Incarnation>,
    /// What the journal answered. The answer is on its way.
    pub(super) answer: Option<Result<Renewed, ()>>,
}

/// A claim and the production owner that drives it.
#[derive(Clone)]
pub(super) struct Hand {
    pub(super) owner: Arc<Owner>,
    /// A hash of the owner.
    owner_digest: u64,
    /// An append that the owner wants stored.
    pub(super) sending: Option<Arc<Append>>,
    /// It was stored, or not, and the answer got lost.
    pub(super) is_unanswered: bool,
    /// The attempt whose tree it watches.
    pub(super) watching: Option<u32>,
}

/// An effect with the claim that asked for it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Errand {
    pub(super) effect: Effect,
    pub(super) epoch: Epoch,
    pub(super) under: Incarnation,
    /// A launch that reached a keeper.
    pub(super) is_sent: bool,
}

/// A server's clerk: watches lives and the pause.
#[derive(Clone, Default)]
pub(super) struct Clerk {
    pub(super) watch: Watch,
    pub(super) pause: PauseWatch<Instance>,
    /// Lives to end, each with the beat at which it stands: on their way to the journal.
    pub(super) ends: Vec<(Incarnation, u64)>,
    /// A pause to end: on its way to the journal.
    pub(super) settle: Option<Instance>,
    pub(super) is_ahead: bool,
    pub(super) life: Option<Incarnation>,
    pub(super) hand: Option<Hand>,
}

/// Returns the place of a host.
pub(super) fn place(host: usize) -> Place {
    Place::new(HOSTS[host].0, HOSTS[host].1)
}

/// Returns the name of the worker of a host.
pub(super) fn worker_name(host: usize) -> OwnerId {
    OwnerId(HOSTS[host].2.into())
}

/// Returns the host with these ids.
pub(super) fn host_of(host: &HostId, boot: Option<&str>) -> Option<usize> {
    HOSTS.iter().position(|known| *known.0 == *host.0 && Some(known.1) == boot)
}

/// Returns the name of a clerk, which is also its host and boot.
pub(super) fn clerk_name(clerk: usize) -> &'static str {
    ["clerk-1", "clerk-2"][clerk]
}

/// Both clocks of an owner stand still: nothing here depends on them.
pub(super) const NOW: Now = Now { wall: AT, awake: Awake(1) };

impl World {
    /// Returns a fleet whose two workers have registered.
    pub(super) fn new(bounds: &Bounds) -> World {
        let mut world = World {
            now: 0,
            left: *bounds,
            database: Database::new(bounds.attempts),
            workers: vec![Worker::default(), Worker::default()],
            clerks: vec![Clerk::default(), Clerk::default()],
            keepers: BTreeMap::new(),
            leases: BTreeMap::new(),
            broken: None,
            notes: Notes::default(),
        };
        (0..world.workers.len()).for_each(|worker| world.call_at_once(worker));
        world
    }

    /// Returns the boot clock of a host.
    pub(super) fn clock(&self, host: usize) -> BootTime {
        BootTime((self.now + 100 * (host as u64 + 1)) * TICK_MS)
    }

    /// Returns the boot clock of a clerk's host.
    pub(super) fn clerk_clock(&self, clerk: usize) -> BootTime {
        let ahead = u64::from(self.clerks[clerk].is_ahead);
        BootTime((self.now + ahead + 1_000 * (clerk as u64 + 1)) * TICK_MS)
    }

    /// Returns a worker as a claimant, in its present life.
    pub(super) fn claimant(&self, worker: usize) -> Option<Claimant> {
        let life = self.workers[worker].life?;
        let Place { host, boot } = place(worker);
        Some(Claimant { owner: worker_name(worker), incarnation: life.incarnation, host, boot: Some(boot) })
    }

    /// Reports whether the lease of a life is over by its file on a host.
    pub(super) fn is_lease_over(&self, host: usize, life: Incarnation) -> bool {
        self.leases.get(&(host, life)).is_none_or(|until| *until <= self.clock(host))
    }

    /// Returns what tells this state from others.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.left.hash(&mut hasher);
        self.database.hash_into(&mut hasher);
        for (host, worker) in self.workers.iter().enumerate() {
            self.hash_worker(host, worker, &mut hasher);
        }
        let beats: BTreeMap<Incarnation, u64> =
            self.database.lives().iter().map(|life| (life.incarnation, life.beat)).collect();
        let mut clerks: Vec<u64> =
            (0..self.clerks.len()).map(|clerk| self.clerk_digest(clerk, &beats)).collect();
        // Two clerks that have never taken a job can change places.
        if self.clerks.iter().all(|clerk| clerk.life.is_none()) && !self.left.is_lazy {
            clerks.sort_unstable();
        }
        clerks.hash(&mut hasher);
        self.keepers.hash(&mut hasher);
        for ((host, life), until) in &self.leases {
            (host, life, age(*until, self.clock(*host))).hash(&mut hasher);
        }
        self.broken.hash(&mut hasher);
        hasher.finish()
    }

    fn hash_worker(&self, host: usize, worker: &Worker, hasher: &mut DefaultHasher) {
        let left = |until: BootTime| until.0.saturating_sub(self.clock(host).0);
        (worker.is_down, worker.is_frozen, &worker.errands).hash(hasher);
        let life = worker.life.map(|life| (life.incarnation, left(life.deadline), life.settling));
        life.hash(hasher);
        if let Some(call) = &worker.call {
            (call.life, left(deadline(call.sent, LEASE_MS))).hash(hasher);
            let answer = call.answer.as_ref().map(|answer| answer.as_ref().ok());
            answer.map(|answer| answer.map(|renewed| (renewed.incarnation, renewed.settling))).hash(hasher);
        }
        worker.hand.as_ref().map(Hand::digest).hash(hasher);
    }

    fn clerk_digest(&self, clerk: usize, beats: &BTreeMap<Incarnation, u64>) -> u64 {
        let mut digest = DefaultHasher::new();
        let hasher = &mut digest;
        let known = &self.clerks[clerk];
        let clock = self.clerk_clock(clerk);
        // Whether a beat is still the one that was seen decides; one that has changed is seen anew.
        let stands = |life: Incarnation, beat: u64| beats.get(&life) == Some(&beat);
        let over = |ticks: u64| known.watch.over(MARGIN_MS, clock.plus_ms(ticks * TICK_MS));
        for ticks in 0..=HORIZON {
            let over: Vec<Incarnation> =
                over(ticks).into_iter().filter(|(life, beat)| stands(*life, *beat)).map(|it| it.0).collect();
            over.hash(hasher);
        }
        let pause = |ticks: u64| known.pause.is_over(LEASE_MS, MARGIN_MS, clock.plus_ms(ticks * TICK_MS));
        (0..=HORIZON).map(pause).collect::<Vec<_>>().hash(hasher);
        for (life, beat) in &known.ends {
            (life, beats.get(life).map(|present| present == beat)).hash(hasher);
        }
        (known.settle.map(|pause| (pause.number, pause.settling)), known.is_ahead, known.life).hash(hasher);
        known.hand.as_ref().map(Hand::digest).hash(hasher);
        digest.finish()
    }
}

/// Returns how long a time is ahead, or how long ago it was, as far as that makes a difference.
fn age(time: BootTime, now: BootTime) -> i64 {
    let oldest = -((LATE + 1) * TICK_MS).cast_signed();
    (time.0.cast_signed() - now.0.cast_signed()).max(oldest)
}

impl Hand {
    /// Returns the hand of an owner that has not said anything.
    pub(super) fn new(owner: Owner) -> Hand {
        let owner = Arc::new(owner);
        Hand { owner, owner_digest: 0, sending: None, is_unanswered: false, watching: None }
    }

    /// Gives an input to the owner's step.
    pub(super) fn step(&mut self, input: Input) -> Vec<Output> {
        let outputs = Arc::make_mut(&mut self.owner).step(input, NOW);
        let mut hasher = DefaultHasher::new();
        self.owner.hash(&mut hasher);
        self.owner_digest = hasher.finish();
        outputs
    }

    fn digest(&self) -> (u64, bool, bool, Option<u32>) {
        (self.owner_digest, self.sending.is_some(), self.is_unanswered, self.watching)
    }
}
