//! `retry`: a new job repeats an ended one. The old job does not change, and requests to it do not reach the new one.

use super::Refusal;
use crate::job::Job;
use crate::spec::{Conversation, Spec, Work};

/// Returns the spec of the job that repeats `job`. An agent resumes after its last completed turn, unless it had a worktree: the new
/// job starts with a fresh one, which lacks the work of those turns.
pub fn decide(job: &Job) -> Result<Spec, Refusal> {
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    if !job.is_ended() {
        return Err(Refusal::NotEnded(job.id));
    }
    let mut again = Spec::clone(spec);
    again.retry_of = Some(job.id);
    again.labels = job.labels.clone();
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
