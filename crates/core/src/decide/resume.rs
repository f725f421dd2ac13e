//! `resume`: a new job continues the conversation of an ended one, with a new prompt. The old job does not change. A fork continues a
//! copy of the conversation, and the old job need not have ended.

use super::Refusal;
use crate::job::Job;
use crate::spec::{Conversation, Dialect, Spec, Terms, Work};

/// Returns the spec of the job that resumes the conversation of `job`, with the same agent and terms. It runs in the same folder, so
/// `worktree` is the old job's worktree, if it had one that still exists.
pub fn decide(job: &Job, prompt: &str, worktree: Option<&str>, fork: bool) -> Result<Spec, Refusal> {
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    let nothing = |what| Refusal::Nothing(job.id, what);
    let Work::Agent { provider, terms, .. } = &spec.work else {
        return Err(nothing("no conversation: it runs a command, not an agent"));
    };
    if !job.is_ended() && !fork {
        return Err(Refusal::NotEnded(job.id));
    }
    let acknowledged = job.session.as_ref().and_then(|session| session.resume_reference());
    let Some(reference) = acknowledged else {
        return Err(nothing("no conversation to resume: none of its turns completed"));
    };
    if matches!(terms.dialect, Dialect::Claude | Dialect::Once) && terms.resume.is_empty() {
        return Err(nothing("an agent that cannot be resumed: its definition has no `resume`"));
    }
    let can_fork = match terms.dialect {
        Dialect::Codex => true,
        Dialect::Claude | Dialect::Once => !terms.fork.is_empty(),
        Dialect::Acp | Dialect::Plain => false,
    };
    if fork && !can_fork {
        return Err(nothing("an agent that cannot fork a conversation; resume it without a fork"));
    }
    let mut next = Spec::clone(spec);
    if let Some(asked) = next.worktree.take() {
        let below = spec.cwd.strip_prefix(asked.checkout.as_str()).unwrap_or_default();
        let worktree =
            worktree.ok_or_else(|| nothing("lost its worktree, which the conversation is about"))?;
        next.cwd = format!("{worktree}{below}");
    }
    let (provider, reference) = (provider.clone(), reference.to_owned());
    next.resume = Some(Conversation { provider: provider.clone(), reference });
    // The definition of today has been asked whether its agent loses conversations; what was fixed with the old job is older.
    let terms = Box::new(Terms { no_resume: None, ..Terms::clone(terms) });
    next.work = Work::Agent { provider, prompt: prompt.to_owned(), terms };
    next.after.clear();
    next.not_before = None;
    next.retry_of = None;
    next.fork = fork;
    Ok(next)
}
