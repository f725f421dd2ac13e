//! `claim`: an owner takes a waiting job, or one whose holder is gone.
//!
//! A claim decides whose writes count from here on. The claim of a waiting job also intends its next attempt, to save a write. The owner of an
//! idle agent claims a slot for its next turn, and stays its owner.

use std::sync::Arc;

use super::{Decision, Refusal, launch, take_over};
use crate::event::{Claimed, Fact, Woken};
use crate::ids::{HostId, Incarnation, OwnerId, Timestamp};
use crate::job::{Holder, Job, Phase};

/// An owner that wants a job, in one of its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The owner.
    pub owner: OwnerId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The host whose trees it can see and signal.
    pub host: HostId,
    /// The boot of that host in which it will launch. `None` claims without intending an attempt.
    pub boot: Option<Arc<str>>,
}

/// What the journal knows about the holder's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It is the present life of its owner, and not over.
    Live,
    /// A later life of the owner has registered, but this one may not be over yet: its keepers may still hold trees.
    Replaced {
        /// Whether it was at the claimant's place, where its trees can be seen: another boot of the host may be that of a clone.
        here: bool,
    },
    /// It was ended: its keepers have ended their trees by then.
    Over,
}

/// Decides whether `claimant` gets the job.
pub fn decide(job: &Job, claimant: &Claimant, lease: Lease, now: Timestamp) -> Decision {
    match &job.holder {
        _ if job.phase == Phase::Unborn => Err(Refusal::NotFound(job.id)),
        _ if job.is_ended() => Err(Refusal::Ended(job.id)),
        _ if job.foreign => Err(Refusal::NeedsNewerReader(job.id)),
        Some(holder) if job.idle && lease == Lease::Live && is_held_by(holder, claimant) => wake(job, now),
        Some(holder) if lease == Lease::Live => Err(Refusal::Held(job.id, holder.fence.owner.clone())),
        // Only time proves a tree elsewhere dead, not a new incarnation of its owner.
        Some(holder) if lease == (Lease::Replaced { here: false }) && job.open_attempt().is_some() => {
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

fn is_held_by(holder: &Holder, claimant: &Claimant) -> bool {
    holder.fence.owner == claimant.owner && holder.fence.incarnation == claimant.incarnation
}

/// Decides the claim of a slot for an idle agent by the owner that holds it.
fn wake(job: &Job, now: Timestamp) -> Decision {
    match job.open_attempt().filter(|_| job.due().is_some_and(|due| due <= now)) {
        Some(attempt) => Ok(vec![Woken { attempt: attempt.no }.into()]),
        None => Err(Refusal::NotDue(job.id)),
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
