//! Shutdown: the trees of an owner keep running under their keepers, unless its jobs are to be cancelled.

use super::Decision;
use super::cancel::{self, Cancel};
use crate::event::Released;
use crate::ids::{Fence, OwnerId, Timestamp};
use crate::job::Job;
use crate::outcome::Asked;

/// Decides how the holder of `fence` leaves one of its jobs. A job without an open attempt is released; a running one stays for the next
/// incarnation; one that was taken over is left alone.
pub fn leave(job: &Job, fence: &Fence) -> Decision {
    let ours = job.holder.as_ref().is_some_and(|holder| holder.fence == *fence);
    let idle = job.open_attempt().is_none();
    Ok(if ours && idle { vec![Released { epoch: fence.epoch }.into()] } else { Vec::new() })
}

/// Decides how a shutdown of `owner` cancels a job. A job of another owner is left alone.
pub fn cancel(job: &Job, owner: &OwnerId, now: Timestamp) -> Decision {
    if job.holder.as_ref().is_some_and(|holder| holder.fence.owner != *owner) {
        return Ok(Vec::new());
    }
    cancel::decide(job, &Cancel { by: owner.to_string(), asked: Asked::Shutdown, force: false }, now)
}
