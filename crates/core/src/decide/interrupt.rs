//! `interrupt`: a user ends the active turn but not the job.

use super::{Decision, Refusal};
use crate::event::InterruptRequested;
use crate::ids::TurnNo;
use crate::job::{Job, Phase};

/// Decides an interrupt of `turn`, or of the active turn if none is given.
pub fn decide(job: &Job, by: &str, turn: Option<TurnNo>) -> Decision {
    match (&job.phase, job.active_turn()) {
        (Phase::Unborn, _) => Err(Refusal::NotFound(job.id)),
        (Phase::Ended(_), _) => Err(Refusal::Ended(job.id)),
        _ if job.spec.as_ref().is_some_and(|spec| spec.work.is_one_shot()) => Err(Refusal::Nothing(
            job.id,
            "a single turn, which cannot be interrupted; `lastword cancel` ends the job",
        )),
        (_, None) => Err(Refusal::Nothing(job.id, "no active turn to interrupt")),
        (_, Some(active)) if turn.is_some_and(|turn| turn < active) => {
            Err(Refusal::Nothing(job.id, "another active turn; that one is over"))
        }
        (_, Some(active)) if turn.is_some_and(|turn| turn > active) => {
            Err(Refusal::Nothing(job.id, "another active turn; that one has not begun"))
        }
        (_, Some(active)) => {
            let asked = job.session.as_ref().and_then(|session| session.interrupt);
            let request = InterruptRequested { by: by.to_owned(), turn: active };
            Ok(if asked == Some(active) { Vec::new() } else { vec![request.into()] })
        }
    }
}
