//! `depend`: a job that another one waits for has ended, or was removed.

use std::collections::BTreeMap;

use super::{Decision, Refusal, end, family};
use crate::event::{DependencyRemoved, DependencySettled, Fact};
use crate::ids::JobId;
use crate::job::Job;
use crate::outcome::{Begun, Cause, Outcome};
use crate::spec::{Dependency, Needs, Spec};

/// Decides what the end of `other` means for `job`; `None` if `other` was removed before its outcome could be read. Adds nothing if the job
/// does not wait for it, or not any more.
pub fn decide(job: &Job, other: JobId, outcome: Option<Outcome>) -> Decision {
    if job.is_ended() {
        return Ok(Vec::new());
    }
    let mut facts = follow(&job.unmet, other, outcome);
    if facts.is_empty() {
        facts = family::child_ended(job, other, outcome)?;
    }
    if job.foreign && has_last_word(&facts) {
        return Err(Refusal::NeedsNewerReader(job.id));
    }
    Ok(facts)
}

/// Returns what follows for a new job from dependencies that had ended before. Stored with its submission, because a job that has ended may
/// be removed at any time.
pub fn at_submission(spec: &Spec, ended: &BTreeMap<JobId, Outcome>) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (other, outcome) in ended {
        facts.extend(follow(&spec.after, *other, Some(*outcome)));
        if has_last_word(&facts) {
            break;
        }
    }
    facts
}

/// Returns what follows for a job with these dependencies: how `other` ended, and a last word if it had to end otherwise.
fn follow(unmet: &[Dependency], other: JobId, outcome: Option<Outcome>) -> Vec<Fact> {
    let mut needs = unmet.iter().filter(|dependency| dependency.job == other).peekable();
    if needs.peek().is_none() {
        return Vec::new();
    }
    let mut facts = vec![match outcome {
        Some(outcome) => DependencySettled { job: other, outcome }.into(),
        None => DependencyRemoved { job: other }.into(),
    }];
    // If a dependency is listed twice, the stricter requirement counts. A removed job is not known to have succeeded.
    if needs.any(|dependency| dependency.on == Needs::Success) && outcome != Some(Outcome::Completed) {
        let cause = if outcome.is_some() { Cause::Dependency } else { Cause::DependencyRemoved };
        let outcome = Outcome::Cancelled(Begun::BeforeStart);
        facts.push(end::unstarted(outcome, cause, &other.to_string(), None).into());
    }
    facts
}

fn has_last_word(facts: &[Fact]) -> bool {
    facts.iter().any(|fact| matches!(fact, Fact::LastWord(_)))
}
