//! What jobs spent, summed up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Time, Usage};

/// What jobs spent that have not ended, or ended since a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSums {
    /// The moment.
    pub since: Time,
    /// One sum for each kind of job that was asked for; the most money first, then the most tokens, then the most jobs. At most 500.
    pub items: Vec<UsageSum>,
    /// Whether there are more.
    pub more: bool,
}

/// What jobs of one kind spent. Each job counts with all that it spent, also before the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSum {
    /// The day of UTC on which they ended, such as `2026-11-19`; for those that have not, the present day. Absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// Their agent, empty for commands. Absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Their group. Absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The job that began their conversation, empty for jobs without turns. Absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// How many jobs there are.
    pub jobs: u64,
    /// How many of them have not ended.
    pub live: u64,
    /// How many ended how, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Turns that agents began.
    pub turns: u64,
    /// Milliseconds that ended turns took, without those in which a person was asked.
    pub active_ms: u64,
    /// Tokens and money.
    pub spent: Usage,
}
