//! `depend`: a dependency of a job has ended.

use super::{Decision, Refusal, end};
use crate::event::DependencySettled;
use crate::ids::JobId;
use crate::job::Job;
use crate::outcome::{Begun, Cause, Outcome};
use crate::spec::Needs;

/// Decides what the end of `other` means for `job`. Adds nothing if the job does not wait for it, or not any more.
pub fn decide(job: &Job, other: JobId, outcome: Outcome) -> Decision {
    let mut needs = job.unmet.iter().filter(|dependency| dependency.job == other).peekable();
    if needs.peek().is_none() || job.is_ended() {
        return Ok(Vec::new());
    }
    // If a dependency is listed twice, the stricter requirement counts.
    if needs.any(|dependency| dependency.on == Needs::Success) && outcome != Outcome::Completed {
        if job.foreign {
            return Err(Refusal::NeedsNewerReader(job.id));
        }
        let outcome = Outcome::Cancelled(Begun::BeforeStart);
        return Ok(vec![end::unstarted(outcome, Cause::Dependency, &other.to_string(), None)]);
    }
    Ok(vec![DependencySettled { job: other, outcome }.into()])
}
