//! One append: the facts, the version they build on, the fence they need, and the job row they lead to.
//!
//! It is built here and nowhere else, so a store can trust that row and events agree.

use crate::event::{Event, Fact};
use crate::ids::{AppendId, Fence, JobId, Seq, Timestamp};
use crate::job::Job;
use crate::view::row::Row;

/// What a journal stores in one atomic write, or refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// Which job.
    pub job: JobId,
    /// The version it builds on; any other means that somebody wrote in between.
    pub expected: Seq,
    /// What the job row must still say about its holder; `None` for what anyone may write.
    pub fence: Option<Fence>,
    /// Names this append, so that repeating it is safe.
    pub id: AppendId,
    /// When it was decided.
    pub at: Timestamp,
    /// The events, numbered from `expected` on. Never empty.
    pub events: Vec<Event>,
    /// The job row after them.
    pub row: Row,
}

/// The facts do not belong in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Illegal {
    /// There is nothing to append.
    #[error("an append without facts")]
    Empty,
    /// A fact of the owner came without its fence.
    #[error("`{0}` is for the owner of the job to write")]
    NotTheOwner(&'static str),
    /// A fact does not follow from the log.
    #[error("`{kind}` cannot follow at event {after} of {job}: {why}")]
    OutOfPlace {
        /// Which job.
        job: JobId,
        /// The last event before it.
        after: Seq,
        /// What kind of fact.
        kind: String,
        /// Which rule it breaks.
        why: &'static str,
    },
}

impl Append {
    /// Builds the append of `facts` to `job`, and the job as it will be once that is durable.
    pub fn new(
        job: &Job,
        fence: Option<&Fence>,
        id: AppendId,
        at: Timestamp,
        facts: Vec<Fact>,
    ) -> Result<(Append, Job), Illegal> {
        if facts.is_empty() {
            return Err(Illegal::Empty);
        }
        let mut after = job.clone();
        let mut events = Vec::with_capacity(facts.len());
        let mut by_owner = fence.is_some();
        for fact in facts {
            let owners =
                fact.is_owners() || (matches!(fact, Fact::LastWord(_)) && after.open_attempt().is_some());
            if owners && !by_owner {
                return Err(Illegal::NotTheOwner("an observation"));
            }
            // Whoever claims is the owner from there on.
            by_owner |= matches!(fact, Fact::Claimed(_));
            let event = Event { seq: after.version.next(), at, fact };
            after.apply(&event)?;
            events.push(event);
        }
        let append = Append {
            job: job.id,
            expected: job.version,
            fence: fence.cloned(),
            id,
            at,
            events,
            row: Row::of(&after),
        };
        Ok((append, after))
    }
}
