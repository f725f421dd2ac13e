//! `interrupt`: a person ends one turn and keeps the run.

use super::{Decision, Refusal};
use crate::event::InterruptRequested;
use crate::ids::TurnNo;
use crate::job::{Job, Phase};

/// Decides an interrupt of `turn`, or of the active one if none is named.
pub fn decide(job: &Job, by: &str, turn: Option<TurnNo>) -> Decision {
    match (&job.phase, job.active_turn()) {
        (Phase::Unborn, _) => Err(Refusal::NotFound(job.id)),
        (Phase::Ended(_), _) => Err(Refusal::Ended(job.id)),
        _ if job.spec.as_ref().is_some_and(|spec| spec.work.is_one_shot()) => Err(Refusal::Nothing(
            job.id,
            "one turn that cannot be ended alone: `lastword cancel` ends it and the job",
        )),
        (_, None) => Err(Refusal::Nothing(job.id, "no active turn: there is nothing to stop")),
        (_, Some(active)) if turn.is_some_and(|turn| turn != active) => {
            Err(Refusal::Nothing(job.id, "another active turn: that one is over"))
        }
        (_, Some(active)) => {
            let asked = job.session.as_ref().and_then(|session| session.interrupt);
            let request = InterruptRequested { by: by.to_owned(), turn: active };
            Ok(if asked == Some(active) { Vec::new() } else { vec![request.into()] })
        }
    }
}
