//! `answer`: a user answers a question of the agent, or the one at a limit. Each question takes one answer, which names it; an expired one
//! is denied.

use super::{Decision, Refusal, limit, rule, send};
use crate::event::{AnswerRequested, Fact};
use crate::ids::{InputNo, Timestamp};
use crate::job::{Job, Phase};
use crate::question::{AskKind, Reply};
use crate::session::Question;
use crate::spec::Work;

/// The stored author of a denial by expiry.
const NOBODY: &str = "nobody";

/// The reason of that denial.
const EXPIRED: &str = "not answered in time";

/// Decides to allow what the question of this name asks for, now and whenever the job asks for the same again.
pub fn allow_always(job: &Job, by: &str, name: &str) -> Decision {
    let mut facts = decide(job, by, name, &Reply::Allow)?;
    match question(job, name).and_then(|open| open.ask.as_deref()) {
        Some(ask) => facts.extend(rule::add(job, by, ask)?),
        None => {
            return Err(Refusal::Nothing(
                job.id,
                "asked it of an older version, so no rule can allow it; approve it without --always",
            ));
        }
    }
    Ok(facts)
}

/// Decides the answer to the question of this name.
pub fn decide(job: &Job, by: &str, name: &str, reply: &Reply) -> Decision {
    send::room(job, &reply.text())?;
    if let Some(pause) = job.pause.as_ref().filter(|pause| pause.name() == name) {
        return limit::answer(job, by, pause, reply);
    }
    match question(job, name) {
        None => Err(Refusal::Nothing(job.id, "no open question of that name")),
        Some(open) if open.answered => Err(Refusal::Nothing(job.id, "an answer to that question already")),
        Some(open) => {
            fits(job, open, reply)?;
            Ok(vec![answer(by, job.inputs_made.next(), open, reply.clone())])
        }
    }
}

/// Returns the question of this name.
fn question<'a>(job: &'a Job, name: &str) -> Option<&'a Question> {
    let mut questions = job.session.iter().flat_map(|session| &session.questions);
    questions.find(|open| open.name == name)
}

/// Refuses an answer of another kind than the question needs. A question that 0.1.0 recorded takes any.
fn fits(job: &Job, open: &Question, reply: &Reply) -> Result<(), Refusal> {
    let Some(ask) = &open.ask else { return Ok(()) };
    match (ask.kind, reply) {
        (_, Reply::Deny(_)) | (AskKind::Permission, Reply::Allow) => Ok(()),
        (AskKind::Permission, Reply::Words(_)) => {
            Err(Refusal::Nothing(job.id, "asked for a permission, which is approved or denied"))
        }
        (AskKind::Choice | AskKind::Text, Reply::Allow) => {
            Err(Refusal::Nothing(job.id, "asked a question that needs words, not a permission"))
        }
        (AskKind::Choice | AskKind::Text, Reply::Words(words)) if words.len() != ask.parts.len() => {
            Err(Refusal::Nothing(job.id, "asked for one answer to each of its questions"))
        }
        (AskKind::Choice | AskKind::Text, Reply::Words(_)) => Ok(()),
    }
}

fn answer(by: &str, input: InputNo, question: &Question, reply: Reply) -> Fact {
    let (by, text) = (by.to_owned(), reply.text());
    let (name, question) = (question.name.clone(), question.id.clone());
    AnswerRequested { by, input, question, name, text, reply: Some(reply) }.into()
}

/// Returns the answer of a rule to each open question that one allows.
pub fn by_rule(job: &Job) -> Vec<Fact> {
    let mut input = job.inputs_made;
    let ruled = waiting(job).filter_map(|question| {
        let rule = rule::allowing(job, question.ask.as_deref()?)?;
        input = input.next();
        Some(answer(&format!("rule {rule}"), input, question, Reply::Allow))
    });
    ruled.collect()
}

/// Returns when a question of this job expires.
pub fn expires_at(job: &Job, question: &Question) -> Option<Timestamp> {
    match &job.spec.as_deref()?.work {
        Work::Agent { terms, .. } => Some(question.asked_at.plus_ms(terms.permissions.expires_ms?)),
        Work::Command { .. } => None,
    }
}

/// Returns when the next open question expires.
pub fn next_expiry(job: &Job) -> Option<Timestamp> {
    waiting(job).filter_map(|question| expires_at(job, question)).min()
}

/// Returns a denial for each expired question. The bound on inputs need not be checked: there are at most as many denials as questions.
pub fn expire(job: &Job, now: Timestamp) -> Vec<Fact> {
    let over = waiting(job).filter(|question| expires_at(job, question).is_some_and(|at| at <= now));
    let mut input = job.inputs_made;
    let deny = |question: &Question| {
        input = input.next();
        answer(NOBODY, input, question, Reply::Deny(EXPIRED.to_owned()))
    };
    over.map(deny).collect()
}

/// Returns the questions that a running job waits for.
fn waiting(job: &Job) -> impl Iterator<Item = &Question> {
    let session = job.session.as_ref().filter(|_| matches!(job.phase, Phase::Running));
    session.into_iter().flat_map(|session| session.open_questions())
}
