//! `cancel`: what a wish to stop means in each phase.
//!
//! It is a wish until the tree is gone. Where nothing runs there is nothing to wait for, and the job ends at once.

use super::{Decision, Refusal, end};
use crate::event::CancelRequested;
use crate::ids::Timestamp;
use crate::job::{Job, Phase};
use crate::outcome::{Asked, Begun, Cause, Outcome};

/// A wish to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Who asks.
    pub by: String,
    /// In whose name.
    pub asked: Asked,
    /// Straight to the last rung.
    pub force: bool,
}

/// Decides a wish to stop. On an ended job it adds nothing: the caller reads the outcome it has.
pub fn decide(job: &Job, cancel: &Cancel, now: Timestamp) -> Decision {
    let request = CancelRequested { by: cancel.by.clone(), asked: cancel.asked, force: cancel.force };
    match &job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        // What a newer build wrote may mean that something runs: nothing is ended on a guess.
        Phase::Queued { .. } | Phase::Backoff { .. } if job.foreign => Err(Refusal::NeedsNewerReader(job.id)),
        Phase::Queued { .. } | Phase::Backoff { .. } => {
            let begun = if job.has_begun() { Begun::WhileRunning } else { Begun::BeforeStart };
            Ok(vec![end::unstarted(Outcome::Cancelled(begun), cancel.asked.into(), &cancel.by, Some(now))])
        }
        Phase::Launching | Phase::Running => Ok(vec![request.into()]),
        // Asking again changes nothing, but force may be added. A job that winds up a failed turn may be tried again, and a
        // wish that is not in the log would not prevent that.
        Phase::Stopping { .. } => match &job.stop {
            Some(stop) if stop.cause == Cause::Agent => Ok(vec![request.into()]),
            Some(stop) if cancel.force && !stop.force => Ok(vec![request.into()]),
            _ => Ok(Vec::new()),
        },
        Phase::Ended(_) => Ok(Vec::new()),
    }
}
