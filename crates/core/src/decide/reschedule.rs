//! `reschedule`: a clock that was ahead set the due time of a waiting job, and was set back since.
//!
//! Without this the job would wait until the clock shows that time again. A start time that a user asked for (`not_before`) stays as it is.

use super::{Decision, end};
use crate::event::Rescheduled;
use crate::ids::Timestamp;
use crate::job::{Job, Phase, Waits};

/// How far ahead of the clock a due time may be: the clocks of two machines differ a little. It is waited for.
pub const AHEAD_MAX_MS: u64 = 1_000;

/// Decides a new due time: now for a job that waits for a slot, for its first turn or the next one of its idle agent, and after the whole pause again for one that waits for its next attempt.
/// Adds nothing if the due time can be right.
pub fn decide(job: &Job, now: Timestamp) -> Decision {
    let latest = match job.phase {
        _ if job.foreign => return Ok(Vec::new()),
        _ if job.idle => now,
        _ if job.holder.is_some() => return Ok(Vec::new()),
        Phase::Backoff { .. } if let Some(wait) = &job.provider_wait => match wait.is_opened {
            true => now,
            false => return Ok(Vec::new()),
        },
        Phase::Queued { waits: Waits::Slot } => now,
        Phase::Backoff { .. } => now.plus_ms(end::pause_ms(job)),
        _ => return Ok(Vec::new()),
    };
    let is_ahead = job.due().is_some_and(|due| due > latest.plus_ms(AHEAD_MAX_MS));
    Ok(is_ahead.then(|| Rescheduled { due: latest }.into()).into_iter().collect())
}
