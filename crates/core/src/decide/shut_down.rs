//! `shut down`: a supervisor goes down. Its trees live on under their keepers unless it is told to take them along.

use super::Decision;
use super::cancel::{self, Cancel};
use crate::event::Released;
use crate::ids::{Fence, Timestamp};
use crate::job::Job;
use crate::outcome::Asked;

/// What becomes of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What runs goes on; what was not started goes back to its queue.
    Leave,
    /// Everything is stopped.
    Stop,
}

/// Decides what a shutdown of the holder of `fence` means for one of its jobs. One that was taken over is left alone.
pub fn decide(job: &Job, fence: &Fence, mode: Mode, now: Timestamp) -> Decision {
    let ours = job.holder.as_ref().is_some_and(|holder| holder.fence == *fence);
    match mode {
        _ if !ours => Ok(Vec::new()),
        Mode::Stop => {
            let by = fence.owner.to_string();
            cancel::decide(job, &Cancel { by, asked: Asked::Shutdown, force: false }, now)
        }
        Mode::Leave => {
            let idle = job.open_attempt().is_none();
            Ok(if idle { vec![Released { epoch: fence.epoch }.into()] } else { Vec::new() })
        }
    }
}
