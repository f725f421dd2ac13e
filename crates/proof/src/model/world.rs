//! The model's world: one job's log, the owners around it, and the ground truth about its trees.
//!
//! The log, the fold, the decisions, the rule that admits an append and the owner's step are the production ones. What is
//! modelled is everything else: processes that crash, keepers, messages on their way.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::limits::Limits;
use lastword_core::owner::Owner;
use lastword_core::receipt::Receipt;
use lastword_core::spec::{RetryPolicy, Spec};
use lastword_core::{
    Append, AppendId, Awake, Event, HostId, Incarnation, Job, JobId, Now, OwnerId, Seq, Timestamp,
};
use lastword_store::admit::{Standing, Verdict, admit};
use lastword_store::{Error, Result};

use crate::jobs;

/// The wall-clock limit of the job, and a moment after it.
pub(crate) const WALL_LIMIT_MS: u64 = 50;
pub(crate) const LATE: Awake = Awake(100);

/// The bounds of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Owners; the last one lives on a host of its own when there are more than two.
    pub(crate) owners: usize,
    /// Attempts the job may have, idle ones included.
    pub(crate) attempts: u32,
    /// Registrations in all, the first of each owner included.
    pub(crate) incarnations: u8,
    /// Crashes of owners, keepers and hosts in all.
    pub(crate) crashes: u8,
    /// Answers and reports that get lost, in all.
    pub(crate) losses: u8,
    /// Whether a client may cancel and time may run out.
    pub(crate) wishes: bool,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) shelf: Shelf,
    pub(crate) procs: Vec<Proc>,
    pub(crate) keepers: Vec<Keeper>,
    /// Which boot each host is in.
    pub(crate) boots: [u8; 2],
    /// Appends of processes that died before they were delivered.
    pub(crate) ghosts: Vec<Arc<Append>>,
    pub(crate) cancel: Request,
    pub(crate) raise: Request,
    /// Time has passed the limit.
    pub(crate) late: bool,
    pub(crate) registered: u8,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    /// What must never happen, noticed at the moment it did.
    pub(crate) broken: Option<&'static str>,
}

/// The log as it is stored, with its fold.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) log: Vec<Arc<(AppendId, Event)>>,
    pub(crate) job: Arc<Job>,
}

// The fold follows from the log, so the log alone tells two shelves apart.
impl PartialEq for Shelf {
    fn eq(&self, other: &Shelf) -> bool {
        self.log == other.log
    }
}
impl Eq for Shelf {}
impl Hash for Shelf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.log.hash(state);
    }
}

impl Shelf {
    /// Admits an append by the production rule, and stores it.
    pub(crate) fn append(&mut self, append: &Append) -> Result<()> {
        let holder = self.job.holder.as_ref().map(|holder| &holder.fence);
        let standing = Standing {
            version: self.job.version,
            holder,
            ended: self.job.is_ended(),
            next_written_by: self.log.get(append.expected.0 as usize).map(|entry| entry.0),
            instance: INSTANCE,
            settling: false,
        };
        if admit(append, &standing)? == Verdict::Stored {
            return Ok(());
        }
        let mut job = Job::clone(&self.job);
        for event in &append.events {
            job.apply(event).map_err(|illegal| Error::Corrupt(illegal.to_string()))?;
            self.log.push(Arc::new((append.id, event.clone())));
        }
        self.job = Arc::new(job);
        Ok(())
    }

    pub(crate) fn after(&self, after: Seq) -> Vec<Event> {
        self.log.iter().skip(after.0 as usize).map(|entry| entry.1.clone()).collect()
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = &lastword_core::Fact> {
        self.log.iter().map(|entry| &entry.1.fact)
    }
}

/// A process that owns jobs, or may.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proc {
    pub(crate) up: bool,
    /// Its life, by the number of its registration.
    pub(crate) life: u8,
    /// Its lease ran out. It may not know.
    pub(crate) lease_over: bool,
    pub(crate) owner: Option<Arc<Owner>>,
    /// An append on its way to the journal.
    pub(crate) sending: Option<Arc<Append>>,
    /// It has had no answer to that.
    pub(crate) silence: bool,
    /// Effects that were asked for and not carried out.
    pub(crate) doing: Vec<Effect>,
    /// The attempt it watches.
    pub(crate) watching: Option<u32>,
    /// Whether it was told that it is late.
    pub(crate) ticked: bool,
}

/// A request of a client that is not the owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Unmade,
    /// Decided on a version, not delivered.
    Made(Arc<Append>),
    /// Answered with success.
    Acknowledged,
}

/// The truth about one attempt's keeper and tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    pub(crate) host: usize,
    pub(crate) boot: u8,
    /// A keeper was started for this attempt.
    pub(crate) started: bool,
    /// The place is closed: no keeper can be started.
    pub(crate) closed: bool,
    pub(crate) alive: bool,
    /// The tree works.
    pub(crate) tree: bool,
    /// It was told to stop.
    pub(crate) told: bool,
    /// What it left.
    pub(crate) record: Option<Arc<Receipt>>,
}

pub(crate) const INSTANCE: u64 = 1;

pub(crate) fn job_id() -> JobId {
    JobId::new(0, Timestamp(1), [0; 10])
}

/// The host of a process: the last of three lives alone.
pub(crate) fn host_of(proc: usize) -> usize {
    usize::from(proc >= 2)
}

pub(crate) fn host_id(host: usize) -> HostId {
    HostId(if host == 0 { "a".into() } else { "b".into() })
}

pub(crate) fn owner_id(proc: usize) -> OwnerId {
    OwnerId(["one", "two", "three", "four"][proc].into())
}

pub(crate) fn incarnation(life: u8) -> Incarnation {
    Incarnation { instance: INSTANCE, number: u64::from(life) }
}

impl World {
    pub(crate) fn now(&self) -> Now {
        Now { wall: Timestamp(1), awake: if self.late { LATE } else { Awake(1) } }
    }

    pub(crate) fn new(bounds: &Bounds) -> World {
        let proc = Proc {
            up: true,
            life: 0,
            lease_over: false,
            owner: None,
            sending: None,
            silence: false,
            doing: Vec::new(),
            watching: None,
            ticked: false,
        };
        let mut world = World {
            shelf: Shelf { log: Vec::new(), job: Arc::new(Job::unborn(job_id())) },
            procs: (1..=bounds.owners as u8).map(|life| Proc { life, ..proc.clone() }).collect(),
            keepers: Vec::new(),
            boots: [0, 0],
            ghosts: Vec::new(),
            cancel: Request::Unmade,
            raise: Request::Unmade,
            late: false,
            registered: bounds.owners as u8,
            crashes: bounds.crashes,
            losses: bounds.losses,
            broken: None,
        };
        world.submit(bounds);
        world
    }

    fn submit(&mut self, bounds: &Bounds) {
        let retry = RetryPolicy {
            attempts_max: bounds.attempts,
            relaunches_max: 1,
            backoff_ms: 0,
            backoff_max_ms: 0,
            when_lost: true,
        };
        let limits = Limits { wall_ms: Some(WALL_LIMIT_MS), ..Limits::default() };
        let spec = Arc::new(Spec { limits, retry, ..jobs::spec("q") });
        let facts =
            lastword_core::decide::submit::decide(&self.shelf.job, &spec, "somebody", Limits::default());
        let facts = facts.expect("the spec of the model is sound");
        let (append, _) = Append::new(&self.shelf.job, None, AppendId(1), Timestamp(1), facts)
            .expect("a submission can be appended to nothing");
        self.shelf.append(&append).expect("nothing was written before");
    }
}
