//! `depend`: a job that others wait for has ended.

use super::{Decision, Refusal, end};
use crate::event::DependencySettled;
use crate::ids::JobId;
use crate::job::Job;
use crate::outcome::{Begun, Cause, Outcome};
use crate::spec::Needs;

/// Decides what the end of `other` means for `job`. Telling it twice, or a job that does not wait, changes nothing.
pub fn decide(job: &Job, other: JobId, outcome: Outcome) -> Decision {
    let mut needs = job.unmet.iter().filter(|dependency| dependency.job == other).peekable();
    if needs.peek().is_none() || job.is_ended() {
        return Ok(Vec::new());
    }
    // A job that is named twice is waited for by the stricter need.
    if needs.any(|dependency| dependency.on == Needs::Success) && outcome != Outcome::Completed {
        if job.foreign {
            return Err(Refusal::NeedsNewerReader(job.id));
        }
        let outcome = Outcome::Cancelled(Begun::BeforeStart);
        return Ok(vec![end::unstarted(outcome, Cause::Dependency, &other.to_string(), None)]);
    }
    Ok(vec![DependencySettled { job: other, outcome }.into()])
}
