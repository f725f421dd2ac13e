//! Decisions: one verb, one file, no second copy of a rule.
//!
//! A decision looks at a job and says which facts follow, or refuses. It changes nothing: the facts count once a
//! journal has stored them at the version the decision looked at.

pub mod abandon;
pub mod answer;
pub mod cancel;
pub mod claim;
pub mod depend;
mod end;
pub mod hear;
pub mod interrupt;
pub mod late;
pub mod launch;
pub mod limit;
pub mod observe;
pub mod resume;
pub mod retry;
pub mod send;
pub mod shut_down;
pub mod submit;
pub mod take_over;

use crate::event::Fact;
use crate::ids::{JobId, OwnerId};

/// The facts that follow; none when there is nothing to add.
pub type Decision = Result<Vec<Fact>, Refusal>;

/// A well-formed no. Not a failure: the caller asked for something that does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// The id names another job.
    #[error("{0} is the id of another job: make a new id")]
    IdTaken(JobId),
    /// The spec cannot be run.
    #[error("the job cannot be run: {0}")]
    Invalid(&'static str),
    /// The job is over.
    #[error("{0} has ended; start a new one with retry")]
    Ended(JobId),
    /// The job is not over, and must be for this.
    #[error("{0} has not ended yet; cancel it or wait for it first")]
    NotEnded(JobId),
    /// Somebody else holds the job.
    #[error("{0} is held by {1}, whose lease has not run out")]
    Held(JobId, OwnerId),
    /// The job may not be claimed yet.
    #[error("{0} is not due yet")]
    NotDue(JobId),
    /// The job is kept for its host, whatever happens.
    #[error("{0} is kept running on its host; abandon it to give that up")]
    Kept(JobId),
    /// The log says something this build cannot read.
    #[error("{0} was written by a newer build; upgrade to take it")]
    NeedsNewerReader(JobId),
    /// There is nothing to answer or stop.
    #[error("{0} has {1}")]
    Nothing(JobId, &'static str),
    /// There is more than one thing it could be about.
    #[error("{0} has several open questions; say which one: {1}")]
    Several(JobId, String),
    /// A bound was reached.
    #[error("{0} has reached a bound: {1}")]
    Full(JobId, &'static str),
}
