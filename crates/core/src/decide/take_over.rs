//! `take over`: a new owner takes a job whose holder is gone.
//!
//! On the same host it will look for the tree before it touches anything. From another host the tree cannot be seen:
//! the lease that ran out proves that the keeper ended it, unless the job asked to be kept.

use super::{Refusal, end};
use crate::event::Fact;
use crate::ids::{HostId, Timestamp};
use crate::job::Job;
use crate::receipt::{Proof, Receipt};
use crate::spec::OnPartition;

/// Reports whether the open attempt lives on another host than `host`, where its tree cannot be seen.
pub(super) fn is_elsewhere(job: &Job, host: &HostId) -> bool {
    job.open_attempt().is_some_and(|attempt| attempt.host != *host)
}

/// Refuses to take the job over from `host` if it is to stay on another one. Its holder's lease is over.
pub fn check(job: &Job, host: &HostId) -> Result<(), Refusal> {
    let elsewhere = is_elsewhere(job, host);
    let kept = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
    if elsewhere && kept && !job.is_abandoned() {
        return Err(Refusal::Kept(job.id));
    }
    Ok(())
}

/// Returns the end of an attempt whose tree is on another host, decided by its new holder.
///
/// The lease ran out, and by then the keeper over there had ended its tree; or a person gave up on that host, and
/// then nothing is proven.
pub fn account(job: &Job, host: &HostId, now: Timestamp) -> Vec<Fact> {
    let elsewhere = is_elsewhere(job, host);
    let kept = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
    let proof = if kept { Proof::BestEffort } else { Proof::LeaseSelfFenced };
    if elsewhere { end::attempt(job, Receipt::bare(proof), None, now) } else { Vec::new() }
}
