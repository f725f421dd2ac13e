//! What do we store?
//!
//! | table | one row per | written by |
//! |---|---|---|
//! | `events` | event, keyed by job and number | every append, never changed |
//! | `jobs` | job: version, phase, holder, ending, views | the same append |
//! | `ready` | job that may be claimed | the append that makes it so; a claim deletes it |
//! | `owners` | worker or daemon: incarnation, end of lease | `renew` |
//! | `conversations` | provider reference a live job drives | claims and appends |
//! | `keys` | key of a request that may be repeated | `key` |
//! | `groups` | group: its slots, whether it rests | `set_group` |
//! | `meta` | the database itself: its instance, its schema | opening it |
//!
//! The tables `keys` and `groups`, and the mark that an ending was seen, belong to [`siblings`].
//!
//! A journal has five verbs. Whatever decides about jobs is in `core`; a journal only makes sure that a decision
//! counts exactly once, for the version and the holder it was made for.

pub mod admit;
pub mod hints;
pub mod memory;
pub mod postgres;
pub mod siblings;
pub mod sqlite;

use std::collections::BTreeMap;
use std::future::Future;

use lastword_core::decide::claim::Claimant;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, Event, Fence, Incarnation, JobId, OwnerId, Seq, Timestamp};

/// What a caller can do about a verb that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another writer was faster: load what is new and decide again.
    #[error("{job} has moved on to event {actual}: load it and decide again")]
    Conflict {
        /// Which job.
        job: JobId,
        /// Its version now.
        actual: Seq,
    },
    /// The caller is not the holder any more: let go of the job and touch nothing of it.
    #[error("{job} is held by somebody else: let go of it")]
    Fenced {
        /// Which job.
        job: JobId,
    },
    /// The owner's lease is over, or a later life of it has registered, or its database was replaced: renew or
    /// register again before taking anything.
    #[error("the lease of {owner} is over: renew it or register again before taking jobs")]
    Lapsed {
        /// Which owner.
        owner: OwnerId,
    },
    /// The journal cannot be reached, and whether the write happened is not known: repeat the very same call.
    #[error("the journal cannot be reached ({0}): repeat the same call")]
    Unavailable(String),
    /// What is stored cannot be read, or breaks a rule: stop and ask a person. Never treated as empty.
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
}

/// The journal's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// Remembers jobs. Five verbs; everything else is a sibling of one backend.
pub trait Journal: Clone + Send + Sync + 'static {
    /// Returns the events of a job after `after`, oldest first. None means that there are none.
    fn load(&self, job: JobId, after: Seq) -> impl Future<Output = Result<Vec<Event>>> + Send;

    /// Stores an append if its version and fence still hold, with its row, in one atomic write, and returns once
    /// that is durable. Repeating an append that was stored is a success.
    fn append(&self, append: Append) -> impl Future<Output = Result<Seq>> + Send;

    /// Takes jobs for an owner.
    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Vec<Claimed>>> + Send;

    /// Registers an owner, or extends its lease, and tells which of its jobs have news.
    fn renew(&self, renew: Renew) -> impl Future<Output = Result<Renewed>> + Send;

    /// Reads rows, or the feed over all jobs.
    fn read(&self, read: Read) -> impl Future<Output = Result<Page>> + Send;
}

/// What an owner wants to take.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who.
    pub by: Claimant,
    /// From where.
    pub from: Source,
    /// At most so many.
    pub at_most: u32,
    /// The caller's wall clock: what is due by it may be taken.
    pub now: Timestamp,
}

/// Where claimed jobs come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Jobs that wait in a queue: higher priority first, then the longest due, then the oldest id.
    Ready {
        /// Which queue.
        queue: String,
        /// At most so many jobs of this queue may be held at once, by anyone; `None` is no bound.
        slots: Option<u32>,
    },
    /// Jobs whose holder's lease is over: it ran out, or a later life of that owner has registered, or
    /// another instance of the database gave it. A job with a tree on another host waits until the lease of the later
    /// life has run out too: the keeper over there counts time, not lives.
    Expired {
        /// How long after the end of a lease a takeover must still wait.
        margin_ms: u64,
    },
}

/// A job that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Which.
    pub job: JobId,
    /// Its whole log, the claim included.
    pub events: Vec<Event>,
    /// What to write under.
    pub fence: Fence,
}

/// What an owner says to stay one.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Who.
    pub owner: OwnerId,
    /// Which life of it; `None` registers a new one and replaces the one before.
    pub incarnation: Option<Incarnation>,
    /// How long the lease lasts from now on. Zero ends it at once.
    pub lease_ms: u64,
    /// The caller's wall clock. A journal with a clock of its own uses that one.
    pub now: Timestamp,
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Which life it is.
    pub incarnation: Incarnation,
    /// Held jobs that another writer changed since the holder last wrote: requests wait there.
    pub news: Vec<JobId>,
}

/// What to read.
#[derive(Clone, Debug)]
pub enum Read {
    /// The row of one job.
    Row(JobId),
    /// Rows, newest job first.
    Rows {
        /// Only these.
        filter: Filter,
        /// Only jobs older than this one.
        before: Option<JobId>,
        /// At most so many.
        limit: u32,
    },
    /// Events of all jobs in an order that never skips one that commits late. Per job they are in order of number.
    Feed {
        /// After this place; `None` is the beginning.
        after: Option<Cursor>,
        /// At most so many.
        limit: u32,
    },
}

/// Which rows. What is not said lets all of them pass.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In one of these phases; none means any.
    pub phases: Vec<PhaseName>,
    /// Ended as this, by [`Outcome::name`](lastword_core::outcome::Outcome::name).
    pub outcome: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// Called this.
    pub name: Option<String>,
    /// With each of these labels.
    pub labels: BTreeMap<String, String>,
    /// Held by this life of an owner.
    pub holder: Option<Incarnation>,
}

impl Filter {
    /// Reports whether only jobs that are not over can pass.
    pub(crate) fn is_live_only(&self) -> bool {
        !self.phases.is_empty() && !self.phases.contains(&PhaseName::Ended)
    }

    /// Reports whether it asks for anything but labels.
    pub(crate) fn asks_a_column(&self) -> bool {
        let Filter { phases, outcome, queue, name, holder, labels: _ } = self;
        !phases.is_empty() || outcome.is_some() || queue.is_some() || name.is_some() || holder.is_some()
    }

    /// Reports whether a row passes.
    pub(crate) fn passes(&self, row: &Row) -> bool {
        (self.phases.is_empty() || self.phases.contains(&row.phase))
            && self.outcome.as_ref().is_none_or(|name| row.outcome.is_some_and(|found| found.name() == name))
            && self.queue.as_ref().is_none_or(|queue| row.group == *queue)
            && self.name.as_ref().is_none_or(|name| row.summary.name.as_ref() == Some(name))
            && self.holder.is_none_or(|life| row.holder.as_ref().is_some_and(|held| held.incarnation == life))
            && self.has_labels(row)
    }

    /// Reports whether a row has the labels that are asked for.
    pub(crate) fn has_labels(&self, row: &Row) -> bool {
        self.labels.iter().all(|(name, value)| row.summary.labels.get(name) == Some(value))
    }
}

/// A place in the feed. Opaque: it means something only to the journal that gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub String);

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Rows.
    Rows(Vec<Row>),
    /// A piece of the feed, and where the next one begins.
    Feed {
        /// The events.
        events: Vec<(JobId, Event)>,
        /// Pass this to go on; the one that was passed if nothing is new.
        next: Option<Cursor>,
    },
}

impl Page {
    /// Returns the rows; none for a feed.
    pub fn rows(self) -> Vec<Row> {
        match self {
            Page::Rows(rows) => rows,
            Page::Feed { .. } => Vec::new(),
        }
    }
}
