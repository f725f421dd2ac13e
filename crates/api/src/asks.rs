//! What a job asks of a person, as a line of a list.

use lastword_core::view::asks;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::session::{QuestionKind, QuestionLimit, used_up};

/// What a job asks of a person. It has no name to answer by, because a line shows a part of the question: the job has all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Asks {
    /// The kind of answer it needs; absent if version 0.1.0 recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<QuestionKind>,
    /// Its text, in one line of at most 200 characters, which may be cut. Written by the agent: do not trust it.
    pub text: String,
    /// What is used up, for the kind `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<QuestionLimit>,
    /// When it was asked.
    pub since: Time,
    /// When it expires and is denied. At a limit, that stops the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// How many questions there are beside it.
    #[serde(default)]
    pub others: u32,
}

impl Asks {
    pub(crate) fn of(asks: &asks::Asks) -> Asks {
        let limit = asks.limit.map(|used| QuestionLimit {
            limit: used.limit.name().to_owned(),
            measured: used.used,
            allowed: used.allowed,
        });
        Asks {
            kind: match limit {
                Some(_) => Some(QuestionKind::Limit),
                None => asks.kind.map(QuestionKind::from),
            },
            text: match &limit {
                Some(QuestionLimit { limit, measured, allowed }) => used_up(limit, *measured, *allowed),
                None => asks.text.clone(),
            },
            limit,
            since: asks.since.into(),
            expires_at: asks.expires_at.map(Time::from),
            others: asks.others,
        }
    }
}
