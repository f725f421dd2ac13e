//! `answer`: a person answers a question of the agent. Each question takes one answer.

use super::{Decision, Refusal, send};
use crate::event::AnswerRequested;
use crate::job::Job;

/// Decides an answer.
pub fn decide(job: &Job, by: &str, question: &str, text: &str) -> Decision {
    send::room(job, text)?;
    let questions = job.session.iter().flat_map(|session| &session.questions);
    match questions.into_iter().find(|open| open.id == question) {
        None => Err(Refusal::Nothing(job.id, "no such open question")),
        Some(open) if open.answered => Err(Refusal::Nothing(job.id, "an answer to that question already")),
        Some(_) => Ok(vec![
            AnswerRequested {
                by: by.to_owned(),
                input: job.inputs_made.next(),
                question: question.to_owned(),
                text: text.to_owned(),
            }
            .into(),
        ]),
    }
}
