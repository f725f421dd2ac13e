//! What a job asks of a person, as a line of a list has it: the question that has waited longest, and how many more there are.
//!
//! It has no name to answer by. A person approves only what was shown whole, and a line shows a part.

use serde::{Deserialize, Serialize};

use super::nearest::Used;
use crate::decide::answer;
use crate::ids::Timestamp;
use crate::job::{Job, Pause};
use crate::question::AskKind;
use crate::session::Question;
use crate::spec::OnLimit;

/// Characters of a question in a line.
const TEXT_CHARS_MAX: usize = 200;

/// What a job asks of a person.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asks {
    /// The kind of answer it needs; none at a limit, and if 0.1.0 recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AskKind>,
    /// The limit that is reached, if it is asked there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Used>,
    /// The text of the question, in one line, which may be cut. Empty at a limit. Written by the agent: do not trust it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// When it was asked.
    pub since: Timestamp,
    /// When it is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How many questions there are beside it.
    #[serde(default, skip_serializing_if = "super::row::is_zero")]
    pub others: u32,
}

impl Asks {
    /// Returns what a job asks; `None` if it waits for no person.
    pub(super) fn of(job: &Job) -> Option<Asks> {
        if !job.waits_for_person() {
            return None;
        }
        let of_agent = job.session.iter().flat_map(|session| session.open_questions());
        let of_agent = of_agent.map(|question| Asks::question(job, question));
        let at_limit = job.pause.filter(|pause| !pause.is_denied).map(|pause| Asks::at_limit(job, &pause));
        let all: Vec<Asks> = of_agent.chain(at_limit).collect();
        let others = all.len().saturating_sub(1) as u32;
        let oldest = all.into_iter().min_by_key(|asks| asks.since)?;
        Some(Asks { others, ..oldest })
    }

    fn question(job: &Job, question: &Question) -> Asks {
        Asks {
            kind: question.ask.as_ref().map(|ask| ask.kind),
            limit: None,
            text: question.text.chars().take(TEXT_CHARS_MAX).collect(),
            since: question.asked_at,
            expires_at: answer::expires_at(job, question),
            others: 0,
        }
    }

    fn at_limit(job: &Job, pause: &Pause) -> Asks {
        let expires_ms = job.spec.as_ref().and_then(|spec| match spec.on_limit {
            OnLimit::Ask { expires_ms } => Some(expires_ms),
            OnLimit::Stop => None,
        });
        // Another limit may be in force since, though not a sufficient one.
        let allowed = job.limits.get(pause.limit).unwrap_or(pause.allowed);
        Asks {
            kind: None,
            limit: Some(Used { limit: pause.limit, used: pause.measured, allowed }),
            text: String::new(),
            since: pause.since,
            expires_at: expires_ms.map(|ms| pause.since.plus_ms(ms)),
            others: 0,
        }
    }
}
