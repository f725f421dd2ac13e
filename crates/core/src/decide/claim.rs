//! `claim`: an owner takes a job that waits, or one whose holder is gone.
//!
//! A claim is not a start. It says whose writes count from here on and, of a job that waits, which attempt comes next: what is
//! taken is to be started, and one write is enough for both.

use std::sync::Arc;

use super::{Decision, Refusal, launch, take_over};
use crate::event::{Claimed, Fact};
use crate::ids::{HostId, Incarnation, OwnerId, Timestamp};
use crate::job::{Job, Phase};

/// Who wants the job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// Its name.
    pub owner: OwnerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Where it can see and signal trees.
    pub host: HostId,
    /// In which boot of its host it starts what it takes. `None` takes, and intends nothing yet.
    pub boot: Option<Arc<str>>,
}

/// What the journal knows about the lease of the present holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It runs, as far as the journal can tell.
    Live,
    /// A later life of the same owner has registered, and so much time has not passed yet that the lease must have run
    /// out. Nobody writes under it any more, but its keepers may still hold trees.
    Replaced,
    /// It ran out, with the margin: by now its keepers have ended their trees.
    Over,
}

/// Decides whether `claimant` gets the job.
pub fn decide(job: &Job, claimant: &Claimant, lease: Lease, now: Timestamp) -> Decision {
    match &job.holder {
        _ if job.phase == Phase::Unborn => Err(Refusal::NotFound(job.id)),
        _ if job.is_ended() => Err(Refusal::Ended(job.id)),
        _ if job.foreign => Err(Refusal::NeedsNewerReader(job.id)),
        Some(holder) if lease == Lease::Live => Err(Refusal::Held(job.id, holder.fence.owner.clone())),
        // A tree on another host is proven dead by time alone, not by the new life of its owner.
        Some(holder) if lease == Lease::Replaced && take_over::is_elsewhere(job, &claimant.host) => {
            Err(Refusal::Held(job.id, holder.fence.owner.clone()))
        }
        Some(_) => {
            take_over::check(job, &claimant.host)?;
            Ok(vec![claimed(job, claimant)])
        }
        None if job.due().is_none_or(|due| due > now) => Err(Refusal::NotDue(job.id)),
        None => {
            let intent = claimant.boot.as_ref().map(|boot| launch::intent(job, job.epoch.next(), boot));
            Ok(std::iter::once(claimed(job, claimant)).chain(intent).collect())
        }
    }
}

fn claimed(job: &Job, claimant: &Claimant) -> Fact {
    Claimed {
        owner: claimant.owner.clone(),
        incarnation: claimant.incarnation,
        host: claimant.host.clone(),
        epoch: job.epoch.next(),
    }
    .into()
}
