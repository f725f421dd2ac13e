//! `send`: something to say to the agent. Numbered, so that it is said once.

use super::{Decision, Refusal};
use crate::event::InputRequested;
use crate::job::{Job, Phase};

/// Inputs that wait for one job. Small: an agent reads one prompt at a time, and a longer queue would only hide that
/// it does not.
pub const INPUTS_MAX: usize = 64;

/// Bytes of one input; it is stored in the log.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;

/// Decides an input.
pub fn decide(job: &Job, by: &str, text: &str) -> Decision {
    room(job, text)?;
    Ok(vec![
        InputRequested { by: by.to_owned(), input: job.inputs_made.next(), text: text.to_owned() }.into(),
    ])
}

/// Refuses an input the job cannot take.
pub(super) fn room(job: &Job, text: &str) -> Result<(), Refusal> {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => Err(Refusal::Ended(job.id)),
        Phase::Stopping { .. } => {
            Err(Refusal::Nothing(job.id, "been asked to stop: nothing more is said to it"))
        }
        _ if text.len() > INPUT_BYTES_MAX => Err(Refusal::Full(job.id, "an input of at most 256 KiB")),
        _ if job.inputs.len() >= INPUTS_MAX => {
            Err(Refusal::Full(job.id, "64 inputs that were not delivered yet"))
        }
        _ => Ok(()),
    }
}
