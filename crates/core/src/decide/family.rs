//! `family`: jobs that a process inside another job submits. A child is tied unless it was told to stay: it ends when its parent is cancelled,
//! fails or reaches a limit, and a parent that completed waits for it. The parent knows its children by its own log.

use super::{Decision, Refusal};
use crate::event::{ChildEnded, ChildSubmitted, ChildrenAwaited, Fact, LastWord};
use crate::ids::JobId;
use crate::job::{Job, Phase};
use crate::outcome::Outcome;
use crate::spec::{Permission, Permissions, Rule, Spec, Work};

/// How deep jobs are nested: a job that a person submitted, and three below it.
pub const DEPTH_MAX: usize = 4;

/// Jobs of a family that have not ended, besides the one at its top.
pub const LIVE_MAX: usize = 32;

/// Decides that `child` is submitted from inside `parent`. `above` are the jobs above that; `live` counts the jobs of the family that have not
/// ended, besides the one at its top.
pub fn admit(parent: &Job, above: &[Job], live: usize, by: &str, child: JobId, spec: &Spec) -> Decision {
    if parent.children.iter().any(|known| known.job == child) {
        return Ok(Vec::new());
    }
    match &parent.phase {
        Phase::Unborn => return Err(Refusal::NotFound(parent.id)),
        Phase::Ended(_) | Phase::Awaiting(_) => return Err(Refusal::Ended(parent.id)),
        _ if parent.stop.is_some() => {
            return Err(Refusal::Nothing(
                parent.id,
                "started its end, so nothing more is started from inside it",
            ));
        }
        _ => {}
    }
    let ancestors = || std::iter::once(parent).chain(above);
    if ancestors().count() >= DEPTH_MAX {
        return Err(Refusal::Invalid(
            "it would be the fifth of jobs inside each other; at most 4 are allowed",
        ));
    }
    if live >= LIVE_MAX {
        return Err(Refusal::Full(
            parent.id,
            "a family of 32 jobs that have not ended; wait for one of them",
        ));
    }
    if spec.after.iter().any(|other| ancestors().any(|ancestor| ancestor.id == other.job)) {
        return Err(Refusal::Invalid("it would wait for a job that it is inside of, and that waits for it"));
    }
    for ancestor in ancestors() {
        check_permissions(ancestor, spec)?;
    }
    Ok(vec![ChildSubmitted { by: by.to_owned(), job: child, tied: spec.tied }.into()])
}

/// Adds to the permissions of an agent what an agent above it denies. To leave that out is not to ask for more.
pub fn inherit(above: &Job, spec: &mut Spec) {
    let Some(Work::Agent { terms: limit, .. }) = above.spec.as_ref().map(|spec| &spec.work) else { return };
    let Work::Agent { terms, .. } = &mut spec.work else { return };
    let (limit, own) = (&limit.permissions, &mut terms.permissions);
    let denials = limit.rules.iter().filter(|rule| rule.permission == Permission::Deny);
    let lacking: Vec<Rule> = denials.filter(|rule| !own.rules.contains(rule)).cloned().collect();
    own.rules.splice(0..0, lacking);
    if limit.otherwise == Permission::Deny && own.otherwise == Permission::Ask {
        own.otherwise = Permission::Deny;
    }
}

/// Refuses an agent that may do more without asking than an agent above it.
fn check_permissions(above: &Job, spec: &Spec) -> Result<(), Refusal> {
    let of = |spec: &Spec| match &spec.work {
        Work::Agent { terms, .. } => Some(terms.permissions.clone()),
        Work::Command { .. } => None,
    };
    match (above.spec.as_deref().and_then(of), of(spec)) {
        (Some(limit), Some(asked)) if exceeds(&asked, &limit) => Err(Refusal::Exceeds(above.id)),
        _ => Ok(()),
    }
}

/// Reports whether some request could be allowed by `asked` and not by `limit`, or be put to a person although `limit` denies it. Patterns are
/// compared as they are written, so that what is not known to be narrower is refused.
fn exceeds(asked: &Permissions, limit: &Permissions) -> bool {
    let rank = |permission: Permission| match permission {
        Permission::Deny => 0,
        Permission::Ask => 1,
        Permission::Allow => 2,
    };
    let is_above = |pattern: &str, permission: Permission| {
        let known = limit.rules.iter().find(|rule| rule.pattern == pattern);
        rank(permission) > rank(known.map_or(limit.otherwise, |rule| rule.permission))
    };
    let denies_less =
        limit.rules.iter().filter(|rule| rank(rule.permission) < rank(limit.otherwise)).any(|rule| {
            let same = asked.rules.iter().find(|own| own.pattern == rule.pattern);
            rank(same.map_or(asked.otherwise, |own| own.permission)) > rank(rule.permission)
        });
    // A denial wins over every other rule, so a child must have those of its parent.
    let lacks_denial = limit
        .rules
        .iter()
        .filter(|rule| rule.permission == Permission::Deny)
        .any(|rule| asked.otherwise != Permission::Deny && !asked.rules.contains(rule));
    rank(asked.otherwise) > rank(limit.otherwise)
        || asked.rules.iter().any(|rule| is_above(&rule.pattern, rule.permission))
        || denies_less
        || lacks_denial
}

/// Decides that a child has ended; `outcome` is none if it is not there. The last tied one to end gives a job that waits its last word.
pub fn child_ended(job: &Job, child: JobId, outcome: Option<Outcome>) -> Decision {
    let Some(known) = job.children.iter().find(|known| known.job == child).filter(|_| !job.is_ended()) else {
        return Ok(Vec::new());
    };
    let mut facts: Vec<Fact> = vec![ChildEnded { job: child, outcome }.into()];
    let is_last = known.tied && job.tied().count() == 1;
    if let (Phase::Awaiting(word), true) = (&job.phase, is_last) {
        facts.push(LastWord::clone(word).into());
    }
    if job.foreign && facts.len() > 1 {
        return Err(Refusal::NeedsNewerReader(job.id));
    }
    Ok(facts)
}

/// Returns the last word of a job, or the fact that it waits for the jobs that are tied to it.
pub(super) fn word(job: &Job, word: LastWord) -> Fact {
    match job.tied().next() {
        None => word.into(),
        Some(_) => ChildrenAwaited { word }.into(),
    }
}
