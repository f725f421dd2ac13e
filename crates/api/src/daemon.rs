//! The daemon, its groups and its troubles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::Level;
use crate::patch::present;

/// The state of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Daemon {
    /// Its version.
    pub version: String,
    /// Its pid.
    pub pid: u32,
    /// When it started.
    pub started_at: Time,
    /// Its state directory.
    pub state_dir: String,
    /// The host it runs on.
    pub host: String,
    /// How it contains process trees.
    pub level: Level,
    /// Whether it has recovered the jobs from before its start. Until then it answers nothing but this.
    pub ready: bool,
    /// The number of jobs by phase.
    pub counts: BTreeMap<String, u64>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Recent problems that need attention, newest first.
    pub troubles: Vec<Trouble>,
}

/// A group of jobs that share slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many of its jobs may run at once; absent means no bound.
    pub slots: Option<u32>,
    /// Whether it starts no further jobs.
    pub paused: bool,
    /// Tokens that its jobs may spend in a day of UTC; absent means no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_tokens: Option<u64>,
    /// Money that its jobs may spend in a day of UTC, in millionths of a dollar; absent means no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_money_micros: Option<u64>,
    /// What its jobs have spent today.
    #[serde(default)]
    pub spent_today: Spent,
    /// How many of its jobs have a process: they are launching, running, idle or stopping.
    #[serde(default)]
    pub running: u64,
    /// How many of its jobs wait to be started: they are queued, or wait for their next attempt.
    #[serde(default)]
    pub queued: u64,
}

/// What the jobs of a group have spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spent {
    /// Input and output tokens.
    pub tokens: u64,
    /// Money, in millionths of a dollar.
    pub money_micros: u64,
}

/// A change of a group. A group that does not exist is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupChange {
    /// How many jobs may run at once. Null means no bound, absent leaves it unchanged.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub slots: Option<Option<u32>>,
    /// Whether to start no further jobs. Absent leaves it unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Tokens that its jobs may spend in a day of UTC. Null means no bound, absent leaves it unchanged.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub day_tokens: Option<Option<u64>>,
    /// Money that its jobs may spend in a day of UTC, in millionths of a dollar. Null means no bound, absent leaves it unchanged.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub day_money_micros: Option<Option<u64>>,
}

/// A problem that needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    /// When it was last seen.
    pub time: Time,
    /// The job it is about, if any.
    pub job: Option<String>,
    /// What happened.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
    /// How often it has occurred.
    pub count: u32,
}
