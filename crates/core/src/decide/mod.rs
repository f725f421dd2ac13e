//! Decisions, one verb per file.
//!
//! A decision reads a job and returns the facts that follow, or a refusal. The facts count once a journal has stored them at the
//! version that the decision was based on.

pub mod abandon;
pub mod answer;
pub mod cancel;
pub mod claim;
pub mod depend;
mod end;
pub mod family;
pub mod hear;
pub mod interrupt;
pub mod label;
pub mod late;
pub mod launch;
pub mod limit;
pub mod observe;
pub mod progress;
pub mod provider;
pub mod reschedule;
pub mod resume;
pub mod retry;
pub mod rule;
pub mod send;
pub mod shut_down;
pub mod submit;
pub mod take_over;

use crate::event::Fact;
use crate::ids::{JobId, OwnerId};
use crate::limits::{BadSetting, Limit};

/// The facts that follow, possibly none.
pub type Decision = Result<Vec<Fact>, Refusal>;

/// The request does not apply to the job. This is an answer, not a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// The id names another job.
    #[error("{0} is already the id of another job; use a new id")]
    IdTaken(JobId),
    /// The spec cannot be run.
    #[error("the job cannot be run: {0}")]
    Invalid(&'static str),
    /// The job has ended.
    #[error("{0} has ended; `lastword retry` runs it again as a new job")]
    Ended(JobId),
    /// A job from inside another one would be allowed more than that one.
    #[error(
        "it would be allowed more than {0}, from inside which it is submitted; leave its rules out, or give it the same ones"
    )]
    Exceeds(JobId),
    /// The agent has finished its work and takes no more messages.
    #[error(
        "{0} has finished its work and is ending; `lastword send` continues its conversation when it has ended"
    )]
    Finished(JobId),
    /// The conversation of the job goes on as another one.
    #[error("{0} goes on as {1}")]
    Continued(JobId, JobId),
    /// The job has not ended, and must have.
    #[error("{0} has not ended yet; cancel it or wait for it first")]
    NotEnded(JobId),
    /// Another owner holds the job.
    #[error("{0} is held by {1}, whose lease has not run out")]
    Held(JobId, OwnerId),
    /// The job may not be claimed yet.
    #[error("{0} is not due yet")]
    NotDue(JobId),
    /// The job stays on its host, even if the host is unreachable.
    #[error("{0} stays on its host; `lastword abandon` gives up on that host")]
    Kept(JobId),
    /// The agent does not report what the limit is about.
    #[error("{}", unmeasured(.0, *.1))]
    Unmeasured(String, Limit),
    /// The answer to the question at a limit is not a value of that limit.
    #[error("{0}")]
    NotAValue(BadSetting),
    /// The budget of a conversation is used up.
    #[error("the conversation of {0} has used up its limit `{name}`; raise that first, or set it to 0 for none", name = .1.name())]
    UsedUp(JobId, Limit),
    /// The limit would be used up at once.
    #[error("more than that is used up already; give a higher {} limit, or 0 for none", .0.name())]
    TooLow(Limit),
    /// The log has a fact that this build cannot read.
    #[error("{0} was written by a newer build; upgrade to use it")]
    NeedsNewerReader(JobId),
    /// The job lacks what the request is about, or has something that rules it out.
    #[error("{0} has {1}")]
    Nothing(JobId, &'static str),
    /// A bound is reached.
    #[error("{0} has reached a limit: {1}")]
    Full(JobId, &'static str),
}

fn unmeasured(provider: &str, limit: Limit) -> String {
    let (name, of, instead) = match limit {
        Limit::GroupTokens => ("tokens", "the budget of its group", "run it in a group without one"),
        Limit::GroupMoney => ("money", "the budget of its group", "run it in a group without one"),
        other => (other.name(), "a limit", "limit `wall`, `turn` or `turns` instead"),
    };
    format!(
        "`{provider}` does not report its {name} while a turn runs, so {of} on {name} could not stop it; {instead}"
    )
}
