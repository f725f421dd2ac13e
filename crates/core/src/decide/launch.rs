//! `launch`: the holder of a waiting job intends its next attempt.
//!
//! The intent is stored before the process exists, and at the version the holder has read: a cancel in between makes the append
//! conflict, and the holder reads the job again.

use std::sync::Arc;

use super::{Decision, Refusal};
use crate::event::{Fact, LaunchIntended};
use crate::ids::{AttemptNo, Epoch, Fence};
use crate::job::{Job, Phase};

/// Decides the start of an attempt by the holder of `fence`, in this boot of its host. Adds nothing unless the job is waiting.
pub fn decide(job: &Job, fence: &Fence, boot: &Arc<str>) -> Decision {
    match &job.holder {
        Some(holder) if holder.fence == *fence => {}
        Some(holder) => return Err(Refusal::Held(job.id, holder.fence.owner.clone())),
        None => return Err(Refusal::Nothing(job.id, "no holder")),
    }
    match job.phase {
        Phase::Queued { .. } | Phase::Backoff { .. } => Ok(vec![intent(job, fence.epoch, boot)]),
        Phase::Unborn
        | Phase::Launching
        | Phase::Running
        | Phase::Stopping { .. }
        | Phase::Awaiting(_)
        | Phase::Ended(_) => Ok(Vec::new()),
    }
}

/// Returns the intent to start the next attempt, under the claim of `epoch`.
pub(super) fn intent(job: &Job, epoch: Epoch, boot: &Arc<str>) -> Fact {
    let attempt = AttemptNo(job.attempts.len() as u32 + 1);
    LaunchIntended { attempt, epoch, limits: job.limits, boot: Some(Arc::clone(boot)) }.into()
}
