//! `answer`: a person answers a question of the agent. Each question takes one answer, and one that nobody gave in time is no.

use super::{Decision, Refusal, send};
use crate::event::{AnswerRequested, Fact};
use crate::ids::{InputNo, Timestamp};
use crate::job::{Job, Phase};
use crate::session::Question;
use crate::spec::Work;

/// Who denies what nobody has answered.
const NOBODY: &str = "nobody";

/// What is said then.
const TOO_LATE: &str = "deny nobody answered in time";

/// Returns the only open question, which need not be named.
pub fn only(job: &Job) -> Result<&str, Refusal> {
    send::room(job, "")?;
    let open = job.session.iter().flat_map(|session| session.open_questions());
    let open: Vec<&str> = open.map(|question| question.id.as_str()).collect();
    match open[..] {
        [] => Err(Refusal::Nothing(job.id, "no open question")),
        [question] => Ok(question),
        _ => Err(Refusal::Several(job.id, open.join(", "))),
    }
}

/// Decides an answer.
pub fn decide(job: &Job, by: &str, question: &str, text: &str) -> Decision {
    send::room(job, text)?;
    let questions = job.session.iter().flat_map(|session| &session.questions);
    match questions.into_iter().find(|open| open.id == question) {
        None => Err(Refusal::Nothing(job.id, "no such open question")),
        Some(open) if open.answered => Err(Refusal::Nothing(job.id, "an answer to that question already")),
        Some(_) => Ok(vec![answer(by, job.inputs_made.next(), question, text)]),
    }
}

fn answer(by: &str, input: InputNo, question: &str, text: &str) -> Fact {
    let (by, question, text) = (by.to_owned(), question.to_owned(), text.to_owned());
    AnswerRequested { by, input, question, text }.into()
}

/// Returns when a question of this job is denied, if nobody answers it before.
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

/// Returns the denial of each question that nobody answered in time. The queue of a full job has room for them: they are as few as
/// the questions.
pub fn expire(job: &Job, now: Timestamp) -> Vec<Fact> {
    let over = waiting(job).filter(|question| expires_at(job, question).is_some_and(|at| at <= now));
    let mut input = job.inputs_made;
    let deny = |question: &Question| {
        input = input.next();
        answer(NOBODY, input, &question.id, TOO_LATE)
    };
    over.map(deny).collect()
}

/// Returns what a job that runs waits for.
fn waiting(job: &Job) -> impl Iterator<Item = &Question> {
    let session = job.session.as_ref().filter(|_| matches!(job.phase, Phase::Running));
    session.into_iter().flat_map(|session| session.open_questions())
}
