//! One append: the facts, the version they build on, the fence they need, and the job row that results.
//!
//! Appends are built only here, so a store can trust that row and events agree.

use crate::event::{Event, Fact};
use crate::ids::{AppendId, Fence, JobId, Seq, Timestamp};
use crate::job::Job;
use crate::view::row::Row;

/// Facts that a journal stores in one atomic write, or refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// The job.
    pub job: JobId,
    /// The version it builds on. If the job has another version by now, the append conflicts.
    pub expected: Seq,
    /// The fence that the job's holder must still have; `None` for facts that anyone may write.
    pub fence: Option<Fence>,
    /// The instance of the journal that the job was read in, for an append without a fence: if the journal has lost writes since, what was read
    /// may be among them, and the append conflicts. `None` if nothing was read.
    pub read_in: Option<u64>,
    /// Identifies this append, so that repeating it is safe.
    pub id: AppendId,
    /// When it was decided.
    pub at: Timestamp,
    /// The events, numbered from `expected.next()`. Never empty.
    pub events: Vec<Event>,
    /// The job row after these events.
    pub row: Row,
}

/// Facts that must not be appended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Illegal {
    /// There are no facts.
    #[error("an append without facts")]
    Empty,
    /// A fact that only the owner may write, without its fence.
    #[error("only the owner of the job may write {0}")]
    NotTheOwner(&'static str),
    /// A fact that cannot follow the log.
    #[error("`{kind}` cannot follow event {after} of {job}: {why}")]
    OutOfPlace {
        /// The job.
        job: JobId,
        /// The last event before it.
        after: Seq,
        /// The kind of the fact.
        kind: String,
        /// The rule it breaks.
        why: &'static str,
    },
}

impl Append {
    /// Reports whether it may follow the last word: it only keeps late reports, or is about a conversation.
    pub fn may_follow_the_end(&self) -> bool {
        let in_conversation = self.row.conversation.is_some();
        self.events.iter().all(|event| match &event.fact {
            Fact::LateReported(_) => true,
            fact => in_conversation && fact.is_of_conversation(),
        })
    }

    /// Builds the append of `facts` to `job`, and the job as it will be once the append is stored.
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
            let ends = matches!(fact, Fact::LastWord(_) | Fact::ChildrenAwaited(_));
            let owners = fact.is_owners() || (ends && after.open_attempt().is_some());
            if owners && !by_owner {
                return Err(Illegal::NotTheOwner("an observation"));
            }
            // A claim makes its writer the owner for the facts after it.
            by_owner |= matches!(fact, Fact::Claimed(_));
            let event = Event { seq: after.version.next(), at, fact };
            after.apply(&event)?;
            events.push(event);
        }
        let append = Append {
            job: job.id,
            expected: job.version,
            fence: fence.cloned(),
            read_in: None,
            id,
            at,
            events,
            row: Row::of(&after),
        };
        Ok((append, after))
    }

    /// Reports whether the append gives the job its last word.
    pub fn ends(&self) -> bool {
        self.events.iter().any(|event| matches!(event.fact, Fact::LastWord(_)))
    }
}
