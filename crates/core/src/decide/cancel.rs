//! `cancel`: what a request to stop means in each phase.
//!
//! A running job ends only when its tree is gone. A job with nothing running ends at once.

use super::{Decision, Refusal, end, family};
use crate::event::CancelRequested;
use crate::ids::Timestamp;
use crate::job::{Job, Phase};
use crate::outcome::{Asked, Begun, Cause, Outcome};

/// A request to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The name of the user that asks.
    pub by: String,
    /// The kind of requester.
    pub asked: Asked,
    /// Skip to the last rung.
    pub force: bool,
}

/// Decides a request to stop. It adds nothing to an ended job: the caller reads the outcome.
pub fn decide(job: &Job, cancel: &Cancel, now: Timestamp) -> Decision {
    let request = CancelRequested { by: cancel.by.clone(), asked: cancel.asked, force: cancel.force };
    match &job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        // A fact from a newer build may mean that something runs, so the job cannot be ended here.
        Phase::Queued { .. } | Phase::Backoff { .. } if job.foreign => Err(Refusal::NeedsNewerReader(job.id)),
        Phase::Queued { .. } | Phase::Backoff { .. } => {
            let begun = if job.has_begun() { Begun::WhileRunning } else { Begun::BeforeStart };
            let (outcome, cause) = (Outcome::Cancelled(begun), cancel.asked.into());
            Ok(vec![family::word(job, end::unstarted(outcome, cause, &cancel.by, Some(now)))])
        }
        Phase::Launching | Phase::Running => Ok(vec![request.into()]),
        // A repeated request changes nothing, unless it adds force. A job that stops because of a failed turn may be retried, and
        // only a request in the log prevents that.
        Phase::Stopping { .. } => match &job.stop {
            Some(stop) if stop.cause == Cause::Agent => Ok(vec![request.into()]),
            Some(stop) if cancel.force && !stop.force => Ok(vec![request.into()]),
            _ => Ok(Vec::new()),
        },
        // What it achieved stays so. The jobs that are tied to it are stopped.
        Phase::Awaiting(_) if job.stop.as_ref().is_none_or(|stop| cancel.force && !stop.force) => {
            Ok(vec![request.into()])
        }
        Phase::Awaiting(_) | Phase::Ended(_) => Ok(Vec::new()),
    }
}
