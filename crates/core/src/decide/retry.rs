//! `retry`: an ended job is run again, as a new job. The old job does not change.

use super::{Refusal, resume};
use crate::job::Job;
use crate::spec::Spec;

/// Returns the spec of the job that repeats `job`. An agent goes on in its conversation, whose newest job is `newest`, unless it had a
/// worktree: the new job starts with a fresh one, which lacks the work of the turns before.
pub fn decide(job: &Job, newest: &Job) -> Result<Spec, Refusal> {
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    if !job.is_ended() {
        return Err(Refusal::NotEnded(job.id));
    }
    let mut again = Spec::clone(spec);
    again.retry_of = Some(job.id);
    again.labels = job.labels.clone();
    again.after.clear();
    again.not_before = None;
    if spec.work.reports_turns() && spec.worktree.is_none() {
        if !newest.is_ended() {
            return Err(Refusal::NotEnded(newest.id));
        }
        let source = resume::source(newest);
        again.fork = source.is_copied;
        source.into_spec(&mut again);
        again.conversation = resume::position(newest);
        again.limits = newest.limits;
    }
    Ok(again)
}
