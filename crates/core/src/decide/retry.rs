//! `retry`: an ended job is tried again, as a new job. Ended is ended: the old one does not change, and no request to it
//! reaches the new one.

use super::Refusal;
use crate::job::Job;
use crate::spec::{Conversation, Spec, Work};

/// Returns the spec of the job that tries `job` again. An agent goes on from its last acknowledged turn, unless it had a worktree: the
/// new job begins with one in which nothing of that was done.
pub fn decide(job: &Job) -> Result<Spec, Refusal> {
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    if !job.is_ended() {
        return Err(Refusal::NotEnded(job.id));
    }
    let mut again = Spec::clone(spec);
    again.retry_of = Some(job.id);
    again.after.clear();
    again.not_before = None;
    let session = job.session.as_ref().filter(|_| spec.worktree.is_none());
    let acknowledged = session.and_then(|session| session.resume_reference());
    if let (Work::Agent { provider, .. }, Some(reference)) = (&spec.work, acknowledged) {
        again.fork = false;
        again.resume = Some(Conversation { provider: provider.clone(), reference: reference.to_owned() });
    }
    Ok(again)
}
