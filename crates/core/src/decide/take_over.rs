//! `take over`: a new owner claims a job whose holder is gone.
//!
//! On the same host, the new owner locates the tree before it touches anything. On another host it cannot see the tree: the life that
//! is over proves that the keeper ended it, unless the job is to keep running without a lease.

use super::{Refusal, end};
use crate::event::Fact;
use crate::ids::{HostId, Timestamp};
use crate::job::Job;
use crate::receipt::{Proof, Receipt};
use crate::spec::OnPartition;

/// Reports whether the open attempt is on another host than `host`, so that its tree cannot be seen.
fn is_elsewhere(job: &Job, host: &HostId) -> bool {
    job.open_attempt().is_some_and(|attempt| attempt.host != *host)
}

/// Refuses a takeover by `host` if the job is to stay on another host. The holder's lease must be over.
pub fn check(job: &Job, host: &HostId) -> Result<(), Refusal> {
    let elsewhere = is_elsewhere(job, host);
    let kept = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
    if elsewhere && kept && !job.is_abandoned() {
        return Err(Refusal::Kept(job.id));
    }
    Ok(())
}

/// Returns the end of an attempt on another host, as its new holder decides it.
///
/// Either the lease ran out, so that host's keeper has ended the tree; or a user gave up on that host, and nothing is proven.
pub fn account(job: &Job, host: &HostId, now: Timestamp) -> Vec<Fact> {
    let elsewhere = is_elsewhere(job, host);
    let kept = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
    let proof = if kept { Proof::BestEffort } else { Proof::LeaseSelfFenced };
    if elsewhere { end::attempt(job, Receipt::bare(proof), None, now, None) } else { Vec::new() }
}
