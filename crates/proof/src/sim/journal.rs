//! The journal's state: the production ledger over a disk, and the calls and answers that travel to and from it.

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Life;
use lastword_core::{Append, Event, Incarnation, JobId, Seq};
use lastword_store::memory::{Ledger, Record};
use lastword_store::{Claimed, Renew, Renewed};

use super::disk::Disk;
use super::process::Hold;

/// Which database it is.
pub(super) const INSTANCE: u64 = 1;

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
    Load { job: JobId, after: Seq },
    Append(Box<Append>),
    Ready(Claimant),
    Expired(Claimant),
    Mine(Incarnation),
    Renew(Renew),
    Lives,
    EndLife(Incarnation, u64),
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
    Lives(Vec<Life>),
    LifeEnded,
    /// The name is taken by a life elsewhere.
    NameTaken,
}

/// The journal.
pub(super) struct Store {
    pub(super) ledger: Ledger,
    pub(super) disk: Disk,
    pub(super) up: bool,
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
            unsynced: Vec::new(),
            dirty: false,
            waiting: Vec::new(),
        }
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
