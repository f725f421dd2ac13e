//! `send`: input for an agent, or for a command that reads. Inputs are numbered, so that each is delivered once.

use super::{Decision, Refusal};
use crate::event::{Fact, InputRequested};
use crate::job::{Job, Phase};
use crate::spec::{Io, Spec, Work};

/// Undelivered inputs per job. Small: an agent reads one prompt at a time, and a longer queue would only hide an agent that reads none.
pub const INPUTS_MAX: usize = 64;

/// Bytes of one input. It is stored in the log.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;

/// Refuses input to an agent that takes one prompt.
const ONE_SHOT: &str = "no input: its agent takes a single prompt; once it has ended, continue with `lastword resume` if the \
    agent supports it, or start over with `lastword run`";

/// Decides an input. After one with `eof`, no more are accepted until the next attempt.
pub fn decide(job: &Job, by: &str, text: &str, eof: bool) -> Decision {
    room(job, text)?;
    match job.spec.as_deref() {
        Some(Spec { work: Work::Command { .. }, io: Io::Null, .. }) => {
            return Err(Refusal::Nothing(job.id, "no input: it was not started with a pipe or a terminal"));
        }
        Some(spec) if spec.work.is_one_shot() => return Err(Refusal::Nothing(job.id, ONE_SHOT)),
        Some(Spec { work: Work::Agent { .. }, .. }) if eof => {
            return Err(Refusal::Nothing(job.id, "no input to close: an agent ends when its work is done"));
        }
        _ if job.is_finished_agent() => return Err(Refusal::Finished(job.id)),
        _ if job.input_closed => {
            return Err(Refusal::Nothing(job.id, "had its input closed; nothing more can be sent"));
        }
        _ => {}
    }
    Ok(vec![input(job, by, text, eof, false)])
}

/// Decides an input for the active turn. An agent that cannot be steered gets it as the prompt of its next turn.
pub fn steer(job: &Job, by: &str, text: &str) -> Decision {
    room(job, text)?;
    match job.spec.as_deref() {
        Some(spec) if spec.work.is_one_shot() => Err(Refusal::Nothing(job.id, ONE_SHOT)),
        _ if job.is_finished_agent() => Err(Refusal::Finished(job.id)),
        Some(Spec { work: Work::Agent { .. }, .. }) => Ok(vec![input(job, by, text, false, true)]),
        _ => Err(Refusal::Nothing(job.id, "no turns: only an agent can be steered")),
    }
}

fn input(job: &Job, by: &str, text: &str, eof: bool, steer: bool) -> Fact {
    let (by, text) = (by.to_owned(), text.to_owned());
    InputRequested { by, input: job.inputs_made.next(), text, eof, steer }.into()
}

/// Refuses an input that the job cannot accept.
pub(super) fn room(job: &Job, text: &str) -> Result<(), Refusal> {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => Err(Refusal::Ended(job.id)),
        Phase::Awaiting(_) => Err(Refusal::Finished(job.id)),
        Phase::Stopping { .. } => {
            Err(Refusal::Nothing(job.id, "been asked to stop and accepts no more input"))
        }
        _ if text.len() > INPUT_BYTES_MAX => Err(Refusal::Full(job.id, "an input may be at most 256 KiB")),
        _ if job.inputs.len() >= INPUTS_MAX => Err(Refusal::Full(job.id, "64 inputs are not delivered yet")),
        _ => Ok(()),
    }
}
