//! `late`: a report of an owner that was replaced. It is recorded for readers of the log and has no effect.

use super::{Decision, Refusal};
use crate::event::LateReported;
use crate::ids::Epoch;
use crate::job::{Job, Phase};

/// Late reports recorded per job: enough to see what happened, too few to fill a log.
pub const LATE_MAX: u32 = 16;

/// Characters kept of a late report.
const WHAT_CHARS_MAX: usize = 200;

/// Decides what to record of a report under a claim that is over.
pub fn decide(job: &Job, epoch: Epoch, what: &str) -> Decision {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        _ if job.late >= LATE_MAX => Ok(Vec::new()),
        _ => {
            let what = what.chars().take(WHAT_CHARS_MAX).collect();
            Ok(vec![LateReported { epoch, what }.into()])
        }
    }
}
