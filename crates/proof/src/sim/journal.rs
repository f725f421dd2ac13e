//! The journal's state: the production ledger over a disk, and the calls and answers that travel to and from it.

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Life;
use lastword_core::{Append, AttemptNo, Event, Incarnation, JobId, Seq};
use lastword_store::memory::{Ledger, Record};
use lastword_store::{Claimed, Instance, Renew, Renewed};

use super::disk::Disk;
use super::process::Hold;

/// Which database it is at first.
const INSTANCE: u64 = 1;

/// The caller of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The owner of a job.
    Hand(Hold),
    /// A process that owns jobs, in one of its lives.
    Process(usize, u32),
    /// A person or program with a request.
    Asker(usize),
}

/// A call to the journal.
pub(super) struct Call {
    pub(super) caller: Caller,
    pub(super) no: u64,
    pub(super) verb: Verb,
}

/// What is asked of the journal.
pub(super) enum Verb {
    Load {
        job: JobId,
        after: Seq,
    },
    Append(Box<Append>),
    Ready(Claimant),
    Expired(Claimant),
    Mine(Incarnation),
    Renew(Renew),
    Lives,
    EndLife(Incarnation, u64),
    /// The trees that are alive where the claimant is.
    Alive(Claimant, Vec<(JobId, AttemptNo)>),
    Settle(Instance),
}

/// What it says.
pub(super) enum Answer {
    Loaded(Vec<Event>),
    Stored(JobId, Seq),
    Conflict,
    Fenced,
    Lapsed,
    Unavailable,
    Taken(Vec<Claimed>),
    Renewed(Renewed),
    Lives(Vec<Life>, Instance),
    Done,
    /// The name is taken by a life elsewhere.
    NameTaken,
}

/// The journal.
pub(super) struct Store {
    pub(super) ledger: Ledger,
    pub(super) disk: Disk,
    pub(super) up: bool,
    /// Its present instance.
    instance: u64,
    /// Appends on disk that are not synced, oldest first.
    pub(super) unsynced: Vec<Record>,
    pub(super) dirty: bool,
    /// Answers that wait for the sync.
    pub(super) waiting: Vec<(Caller, u64, Answer)>,
}

impl Store {
    pub(super) fn new() -> Store {
        Store {
            ledger: Ledger::shared(INSTANCE),
            disk: Disk::default(),
            up: true,
            instance: INSTANCE,
            unsynced: Vec::new(),
            dirty: false,
            waiting: Vec::new(),
        }
    }

    /// Returns an empty ledger of the present instance. It pauses unless it is the first one: what came after the last sync may be lost.
    pub(super) fn empty(&self) -> Ledger {
        let mut ledger = Ledger::shared(INSTANCE);
        if self.instance != INSTANCE {
            ledger.replace_instance(self.instance);
        }
        ledger
    }

    /// Goes on as another instance.
    pub(super) fn fail_over(&mut self) {
        self.instance += 1;
        self.ledger.replace_instance(self.instance);
    }

    /// Goes on as another instance, on a disk without the last writes. Its ledger is to be made anew.
    pub(super) fn fail_over_behind(&mut self, lost: usize) {
        self.instance += 1;
        self.disk.lose_last(lost);
    }

    /// Returns its present instance.
    pub(super) fn instance(&self) -> u64 {
        self.instance
    }

    pub(super) fn write(&mut self, record: Record) -> u64 {
        let sum = self.disk.write(&record);
        self.ledger.apply(&record);
        if matches!(record, Record::Append(_)) {
            self.unsynced.push(record);
        }
        sum
    }
}
