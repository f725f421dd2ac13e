//! The place of a job in its conversation, and what that used up.

use lastword_core::conversation::Spending;
use lastword_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::usage::Usage;

/// The place of a job in its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// The id of the conversation, which is that of the job that began it.
    pub id: String,
    /// The number of this job in it.
    pub number: u32,
    /// The job before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The job as which it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_by: Option<String>,
    /// What the conversation used up, this job and those before it.
    pub used: Used,
}

/// What a conversation used up of its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Used {
    /// Turns begun.
    pub turns: u32,
    /// Milliseconds that its ended turns took, not counting the time in which a person was asked.
    pub active_ms: u64,
    /// Tokens and money.
    pub spent: Usage,
}

impl Place {
    /// Converts the place of a job; `None` if it has no turns.
    pub(crate) fn of(job: &job::Job) -> Option<Place> {
        Some(Place {
            id: job.conversation()?.to_string(),
            number: job.number(),
            after: job.position.map(|position| position.after.to_string()),
            continued_by: job.continued_by.map(|next| next.to_string()),
            used: Used::of(job.spending()),
        })
    }
}

impl Used {
    /// Converts what was used up.
    pub fn of(spending: Spending) -> Used {
        let Spending { usage, turns, active_ms } = spending;
        Used { turns, active_ms, spent: Usage::of(usage) }
    }
}
