//! The database of the modelled fleet: the production ledger, and what a standby has of it.
//!
//! A standby that is promoted may lack the last appends, and everything that was written after them. It goes on as another instance.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lastword_core::life::Life;
use lastword_core::limits::Limits;
use lastword_core::spec::{RetryPolicy, Spec};
use lastword_core::{Append, AppendId, Incarnation, Job, JobId, Seq, Timestamp};
use lastword_store::memory::{Ledger, Record};
use lastword_store::{Claim, Claimed, Error, Instance, Renew, Renewed, Result};

use crate::jobs;

/// Numbers of instances, in the order in which they begin. A number is random, so a later one may be lower.
const INSTANCES: [u64; 3] = [5, 3, 7];

/// Appends that a promoted standby may lack.
pub(super) const LOST_MAX: usize = 2;

/// The moment of every write: no rule of a fleet depends on wall clocks.
pub(super) const AT: Timestamp = Timestamp(1);

/// The database as it is, and as it was before the last appends.
#[derive(Clone)]
pub(super) struct Database {
    now: Version,
    /// Newest first.
    before: Vec<Version>,
    failovers: usize,
}

#[derive(Clone)]
struct Version {
    ledger: Arc<Ledger>,
    /// The fold of the job's log.
    job: Arc<Job>,
    /// A digest of all appends.
    digest: u64,
    /// The number of the newest life.
    number: u64,
}

/// Returns the job of the model.
pub(super) fn job_id() -> JobId {
    JobId::new(0, AT, [0; 10])
}

impl Database {
    /// Returns a database with one submitted job, which may have so many attempts.
    pub(super) fn new(attempts_max: u32) -> Database {
        let retry = RetryPolicy {
            attempts_max,
            relaunches_max: 1,
            backoff_ms: 0,
            backoff_max_ms: 0,
            when_lost: true,
        };
        let spec = Arc::new(Spec { retry, ..jobs::spec("q") });
        let unborn = Job::unborn(job_id());
        let facts = lastword_core::decide::submit::decide(&unborn, &spec, "ann", Limits::default());
        let facts = facts.expect("the spec of the model is sound");
        let (append, job) =
            Append::new(&unborn, None, AppendId(1), AT, facts).expect("a submission opens a log");
        let mut ledger = Ledger::shared(INSTANCES[0]);
        ledger.apply(&Record::Append(Box::new(append)));
        let now = Version { ledger: Arc::new(ledger), job: Arc::new(job), digest: 0, number: 0 };
        Database { now, before: Vec::new(), failovers: 0 }
    }

    /// Returns the job as stored.
    pub(super) fn job(&self) -> &Job {
        &self.now.job
    }

    /// Returns the present instance.
    pub(super) fn instance(&self) -> Instance {
        self.now.ledger.instance()
    }

    /// Returns the lives that are not over.
    pub(super) fn lives(&self) -> Vec<Life> {
        self.now.ledger.lives()
    }

    /// Returns the beat of a life that is not over.
    pub(super) fn beat(&self, life: Incarnation) -> Option<u64> {
        self.lives().iter().find(|known| known.incarnation == life).map(|known| known.beat)
    }

    /// Returns how many appends a promoted standby can lack now.
    pub(super) fn losable(&self) -> usize {
        self.before.len()
    }

    /// Registers a life, or renews one.
    pub(super) fn renew(&mut self, renew: &Renew) -> Result<Renewed> {
        let (renewed, record) = self.now.ledger.renew(renew)?;
        self.write(&record)?;
        Ok(renewed)
    }

    /// Claims, and stores what was taken.
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Vec<Claimed>> {
        let (taken, records) = self.now.ledger.claim(claim)?;
        for record in &records {
            self.write(record)?;
        }
        Ok(taken)
    }

    /// Stores an append. A success that does not count is an error of the database.
    pub(super) fn append(&mut self, append: &Append) -> Result<Stored> {
        let (_, record) = self.now.ledger.append(append.clone())?;
        let stored = if record.is_some() { Stored::Now } else { Stored::Before };
        if let Some(record) = &record {
            self.write(record)?;
        }
        Ok(stored)
    }

    /// Reports whether everything that an append says is in the log, under an instance that still counts.
    pub(super) fn counts(&self, append: &Append) -> bool {
        let log = self.now.ledger.load(append.job, append.expected);
        let is_present = |fence: &lastword_core::Fence| fence.incarnation.instance == self.instance().number;
        log.starts_with(&append.events) && append.fence.as_ref().is_none_or(is_present)
    }

    /// Returns the log after a place.
    pub(super) fn load(&self, after: Seq) -> Vec<lastword_core::Event> {
        self.now.ledger.load(job_id(), after)
    }

    /// Ends a life if its beat is still this one.
    pub(super) fn end_life(&mut self, life: Incarnation, beat: u64) -> Result<bool> {
        let record = self.now.ledger.end_life(life, beat);
        if let Some(record) = &record {
            self.write(record)?;
        }
        Ok(record.is_some())
    }

    /// Ends a pause, if it is still this one.
    pub(super) fn settle(&mut self, pause: Instance) -> bool {
        Arc::make_mut(&mut self.now.ledger).settle(pause)
    }

    /// The standby is promoted. It lacks so many of the last appends, and all that was written after them.
    pub(super) fn fail_over(&mut self, lost: usize) {
        if let Some(before) = lost.checked_sub(1).and_then(|n| self.before.get(n)) {
            self.now = before.clone();
        }
        self.before.clear();
        self.failovers += 1;
        Arc::make_mut(&mut self.now.ledger).replace_instance(INSTANCES[self.failovers % INSTANCES.len()]);
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::Append(append) => {
                let mut job = Job::clone(&self.now.job);
                for event in &append.events {
                    job.apply(event).map_err(|illegal| Error::Corrupt(illegal.to_string()))?;
                }
                self.before.insert(0, self.now.clone());
                self.before.truncate(LOST_MAX);
                let mut hasher = DefaultHasher::new();
                (self.now.digest, append).hash(&mut hasher);
                (self.now.job, self.now.digest) = (Arc::new(job), hasher.finish());
            }
            Record::Life(life) => self.now.number = self.now.number.max(life.incarnation.number),
            Record::LifeOver(_) => {}
        }
        Arc::make_mut(&mut self.now.ledger).apply(record);
        Ok(())
    }

    /// Hashes what future behaviour depends on. Beats are compared and never counted, so their values are left out; lives of an earlier
    /// instance count for nothing.
    pub(super) fn hash_into(&self, hasher: &mut DefaultHasher) {
        let versions = std::iter::once(&self.now).chain(&self.before);
        versions.for_each(|version| (version.digest, version.number).hash(hasher));
        let instance = self.instance();
        (instance.number, instance.settling.is_some(), self.failovers).hash(hasher);
        for life in self.lives() {
            (life.owner, life.incarnation, life.place).hash(hasher);
        }
    }
}

/// When an append was stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Now,
    /// It was there: a repeat.
    Before,
}
