//! `answer`: a user answers a question of the agent. Each question takes one answer; an expired one is denied.

use super::{Decision, Refusal, send};
use crate::event::{AnswerRequested, Fact};
use crate::ids::{InputNo, Timestamp};
use crate::job::{Job, Phase};
use crate::session::Question;
use crate::spec::Work;

/// The stored author of a denial by expiry.
const NOBODY: &str = "nobody";

/// The answer to an expired question.
const EXPIRED: &str = "deny not answered in time";

/// Returns the open question if there is exactly one.
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

/// Decides the answer to a question.
pub fn decide(job: &Job, by: &str, question: &str, text: &str) -> Decision {
    send::room(job, text)?;
    let questions = job.session.iter().flat_map(|session| &session.questions);
    match questions.into_iter().find(|open| open.id == question) {
        None => Err(Refusal::Nothing(job.id, "no open question with that id")),
        Some(open) if open.answered => Err(Refusal::Nothing(job.id, "an answer to that question already")),
        Some(_) => Ok(vec![answer(by, job.inputs_made.next(), question, text)]),
    }
}

fn answer(by: &str, input: InputNo, question: &str, text: &str) -> Fact {
    let (by, question, text) = (by.to_owned(), question.to_owned(), text.to_owned());
    AnswerRequested { by, input, question, text }.into()
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
        answer(NOBODY, input, &question.id, EXPIRED)
    };
    over.map(deny).collect()
}

/// Returns the questions that a running job waits for.
fn waiting(job: &Job) -> impl Iterator<Item = &Question> {
    let session = job.session.as_ref().filter(|_| matches!(job.phase, Phase::Running));
    session.into_iter().flat_map(|session| session.open_questions())
}
