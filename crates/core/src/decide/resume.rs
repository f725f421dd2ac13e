//! `resume`: a new job continues the conversation of an ended one, with a new prompt. The old job does not change. A fork begins another
//! conversation with a copy, and the old job need not have ended.

use super::{Decision, Refusal};
use crate::conversation::Position;
use crate::event::Continued;
use crate::ids::JobId;
use crate::job::Job;
use crate::spec::{Dialect, ProviderSession, Spec, Terms, Work};

/// Returns the spec of the job that continues the conversation of `job`, with the same agent, terms and limits. It runs in the same folder,
/// so `worktree` is the old job's worktree, if it had one that still exists.
///
/// The agent's session goes on after the last completed turn. If no turn of the conversation was completed, the agent has a new session.
pub fn decide(job: &Job, prompt: &str, worktree: Option<&str>, fork: bool) -> Result<Spec, Refusal> {
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    let nothing = |what| Refusal::Nothing(job.id, what);
    let Work::Agent { provider, terms, .. } = &spec.work else {
        return Err(nothing("no conversation: it runs a command, not an agent"));
    };
    if !job.is_ended() && !fork {
        return Err(Refusal::NotEnded(job.id));
    }
    let (session, is_copied) = source(job);
    check_agent(terms, session.is_some(), fork).map_err(nothing)?;
    let mut next = Spec::clone(spec);
    if let Some(asked) = next.worktree.take() {
        let below = spec.cwd.strip_prefix(asked.checkout.as_str()).unwrap_or_default();
        let worktree =
            worktree.ok_or_else(|| nothing("lost its worktree, which the conversation is about"))?;
        next.cwd = format!("{worktree}{below}");
    }
    next.resume = session;
    // The definition of today has been asked whether its agent loses conversations; what was fixed with the old job is older.
    let terms = Box::new(Terms { no_resume: None, ..Terms::clone(terms) });
    next.work = Work::Agent { provider: provider.clone(), prompt: prompt.to_owned(), terms };
    next.limits = job.limits;
    next.after.clear();
    next.not_before = None;
    next.retry_of = None;
    next.fork = fork || is_copied;
    next.conversation = if fork { None } else { position(job) };
    Ok(next)
}

/// Refuses an agent that cannot go on with a session, or with a copy of one.
fn check_agent(terms: &Terms, has_session: bool, fork: bool) -> Result<(), &'static str> {
    let can_resume = match terms.dialect {
        Dialect::Claude | Dialect::Once => !terms.resume.is_empty(),
        Dialect::Codex | Dialect::Acp => true,
        Dialect::Plain => false,
    };
    let can_fork = match terms.dialect {
        Dialect::Codex => true,
        Dialect::Claude | Dialect::Once => !terms.fork.is_empty(),
        Dialect::Acp | Dialect::Plain => false,
    };
    match () {
        () if !can_resume => Err("an agent that cannot be resumed: its definition has no `resume`"),
        () if !fork => Ok(()),
        () if !has_session => Err("no conversation to fork: none of its turns completed"),
        () if !can_fork => Err("an agent that cannot fork a conversation; resume it without a fork"),
        () => Ok(()),
    }
}

/// Returns the session that the next job goes on with, and whether it is to be copied first: the job's own as its last completed turn left
/// it, or else the one that the job itself was to go on with.
pub fn source(job: &Job) -> (Option<ProviderSession>, bool) {
    let Some(spec) = &job.spec else { return (None, false) };
    let acknowledged = job.session.as_ref().and_then(|session| session.resume_reference());
    match (&spec.work, acknowledged) {
        (Work::Agent { provider, .. }, Some(reference)) => {
            let (provider, reference) = (provider.clone(), reference.to_owned());
            (Some(ProviderSession { provider, reference }), false)
        }
        _ => (spec.resume.clone(), spec.fork),
    }
}

/// Returns the place of the job that follows in its conversation.
pub(super) fn position(job: &Job) -> Option<Position> {
    Some(Position { first: job.conversation()?, after: job.id, number: job.number() + 1 })
}

/// Decides that the conversation of an ended job goes on as `next`. Only one job follows another.
pub fn follow(job: &Job, by: &str, next: JobId) -> Decision {
    match job.continued_by {
        _ if job.spec.is_none() => Err(Refusal::NotFound(job.id)),
        _ if !job.is_ended() => Err(Refusal::NotEnded(job.id)),
        Some(follows) if follows == next => Ok(Vec::new()),
        Some(follows) => Err(Refusal::Continued(job.id, follows)),
        None => Ok(vec![Continued { by: by.to_owned(), job: Some(next) }.into()]),
    }
}

/// Decides that `next` does not follow an ended job: it was never submitted.
pub fn unfollow(job: &Job, by: &str, next: JobId) -> Decision {
    let follows = job.continued_by == Some(next);
    Ok(if follows { vec![Continued { by: by.to_owned(), job: None }.into()] } else { Vec::new() })
}
