//! `resume`: a new job continues the conversation of an ended one, with a new prompt. The old job does not change. A fork begins another
//! conversation with a copy, and the old job need not have ended.
//!
//! The agent's session goes on after its last completed turn. Its record may hold turns after that: cancelled, refused, failed. The agent is
//! told to forget them, if it can.

use super::{Decision, Refusal};
use crate::conversation::Position;
use crate::event::Continued;
use crate::ids::{AttemptNo, JobId};
use crate::job::Job;
use crate::spec::{Dialect, ProviderSession, Spec, Terms, Unfinished, Work};

/// How a conversation is to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// With a copy of it.
    pub fork: bool,
    /// With its turns that did not complete.
    pub keep_unfinished: bool,
}

/// Returns the spec of the job that continues the conversation of `job`, with the same agent, terms and limits. It runs in the same folder,
/// so `worktree` is the old job's worktree, if it had one that still exists.
///
/// If no turn of the conversation was completed, the agent has a new session.
pub fn decide(job: &Job, prompt: &str, worktree: Option<&str>, how: How) -> Result<Spec, Refusal> {
    let fork = how.fork;
    let Some(spec) = &job.spec else { return Err(Refusal::NotFound(job.id)) };
    let nothing = |what| Refusal::Nothing(job.id, what);
    let Work::Agent { provider, terms, .. } = &spec.work else {
        return Err(nothing("no conversation: it runs a command, not an agent"));
    };
    if !job.is_ended() && !fork {
        return Err(Refusal::NotEnded(job.id));
    }
    let source = source(job);
    check_agent(terms, source.session.is_some(), fork).map_err(nothing)?;
    let mut next = Spec::clone(spec);
    next.fork = fork || source.is_copied;
    source.into_spec(&mut next);
    if how.keep_unfinished {
        next.unfinished = next.unfinished.and(Some(Unfinished::Kept));
    }
    if let Some(asked) = next.worktree.take() {
        let below = spec.cwd.strip_prefix(asked.checkout.as_str()).unwrap_or_default();
        let worktree =
            worktree.ok_or_else(|| nothing("lost its worktree, which the conversation is about"))?;
        next.cwd = format!("{worktree}{below}");
    }
    // The definition of today has been asked whether its agent loses conversations; what was fixed with the old job is older.
    let terms = Box::new(Terms { no_resume: None, ..Terms::clone(terms) });
    next.work = Work::Agent { provider: provider.clone(), prompt: prompt.to_owned(), terms };
    next.limits = job.limits;
    next.after.clear();
    next.not_before = None;
    next.retry_of = None;
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

/// What a job goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The agent's session.
    pub session: Option<ProviderSession>,
    /// It is to be copied first.
    pub is_copied: bool,
    /// Where in its record the last completed turn ends.
    pub(crate) at: Option<String>,
    /// What becomes of what is recorded after that, if anything is.
    pub unfinished: Option<Unfinished>,
}

impl Source {
    pub(super) fn into_spec(self, spec: &mut Spec) {
        (spec.resume, spec.resume_at, spec.unfinished) = (self.session, self.at, self.unfinished);
    }
}

/// Returns what the next job goes on with: the job's own session as its last completed turn left it, or else the one that the job itself was
/// to go on with.
pub fn source(job: &Job) -> Source {
    let Some(spec) = &job.spec else { return Source::default() };
    let Work::Agent { provider, terms, .. } = &spec.work else {
        return Source { session: spec.resume.clone(), is_copied: spec.fork, ..Source::default() };
    };
    let mut in_same_second = false;
    let (reference, is_copied, has_unfinished, at) = match (&job.session, &spec.resume) {
        (Some(session), _) if session.resume_reference().is_some() => {
            let conversation = &session.conversation;
            in_same_second = session.in_same_second;
            (conversation.resume.as_ref(), false, session.has_unfinished, conversation.mark.as_ref())
        }
        (session, Some(earlier)) => {
            // What the job did is in the record if it opened that session, and not a copy.
            let opened = session.as_ref().filter(|session| session.resumed_from.is_some() && !spec.fork);
            let has_unfinished = opened.map_or(spec.unfinished.is_some(), |session| session.has_unfinished);
            (Some(&earlier.reference), spec.fork, has_unfinished, spec.resume_at.as_ref())
        }
        (_, None) => return Source::default(),
    };
    let session = reference
        .map(|reference| ProviderSession { provider: provider.clone(), reference: reference.clone() });
    let unfinished = has_unfinished.then(|| fate(terms, at.is_some(), in_same_second));
    Source { session, is_copied, at: at.cloned(), unfinished }
}

/// Says what becomes of turns that did not complete. An agent with a request for it cuts its record by the second, and must not cut the turn that
/// was completed in the same one.
fn fate(terms: &Terms, has_mark: bool, in_same_second: bool) -> Unfinished {
    let is_too_coarse = terms.dialect == Dialect::Acp && in_same_second;
    match has_mark && terms.can_rewind() && !is_too_coarse {
        true => Unfinished::Forgotten,
        false => Unfinished::Kept,
    }
}

/// How an attempt of a job goes on with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoesOn<'a> {
    /// The agent's reference for it.
    pub reference: &'a str,
    /// It is a copy of the session.
    pub is_copy: bool,
    /// Where in its record the last completed turn ends.
    pub at: Option<&'a str>,
    /// What becomes of what is recorded after that, if anything is.
    pub unfinished: Option<Unfinished>,
}

/// Returns the session that an attempt goes on with: for a later attempt that of the one before, if a turn of it counts.
pub fn of_attempt(job: &Job, attempt: AttemptNo) -> Option<GoesOn<'_>> {
    let spec = job.spec.as_ref()?;
    let Work::Agent { terms, .. } = &spec.work else { return None };
    if let Some(again) = job.again.as_ref().filter(|again| again.attempt == attempt) {
        let (is_copy, at, unfinished) = (again.is_copy, again.at.as_deref(), again.unfinished);
        return again.reference.as_deref().map(|reference| GoesOn { reference, is_copy, at, unfinished });
    }
    let of_spec = || {
        let earlier = spec.resume.as_ref()?;
        let (reference, at) = (earlier.reference.as_str(), spec.resume_at.as_deref());
        Some(GoesOn { reference, is_copy: spec.fork, at, unfinished: spec.unfinished })
    };
    let Some(session) = &job.session else { return of_spec() };
    let own = match session.attempt == attempt {
        // It is open, so nothing is left to forget.
        true => session.resumed_from.as_deref(),
        false => session.resume_reference(),
    };
    let Some(reference) = own else { return of_spec() };
    let at = session.conversation.mark.as_deref();
    let is_before = session.attempt != attempt && session.has_unfinished;
    let unfinished = is_before.then(|| fate(terms, at.is_some(), session.in_same_second));
    // The conversation of an earlier attempt is the job's own: no copy is needed.
    Some(GoesOn { reference, is_copy: false, at, unfinished })
}

/// Returns the first prompt of an attempt: that of the job, or what its provider refused to answer before.
pub fn prompt_of_attempt(job: &Job, attempt: AttemptNo) -> &str {
    let again = job.again.as_ref().filter(|again| again.attempt == attempt);
    match (again, job.spec.as_ref().map(|spec| &spec.work)) {
        (Some(again), _) => &again.prompt,
        (None, Some(Work::Agent { prompt, .. })) => prompt,
        (None, _) => "",
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
