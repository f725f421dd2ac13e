//! The supervisor itself, its groups and its troubles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::Level;
use crate::patch::present;

/// A daemon and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Daemon {
    /// The version of its build.
    pub version: String,
    /// Its process number.
    pub pid: u32,
    /// When it started.
    pub started_at: Time,
    /// The folder it keeps everything in.
    pub state_dir: String,
    /// The machine it runs on.
    pub host: String,
    /// How it holds trees.
    pub level: Level,
    /// Whether it has found out what became of the jobs of its former life. Until then it only answers this.
    pub ready: bool,
    /// Jobs by phase.
    pub counts: BTreeMap<String, u64>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// What went wrong lately and concerns a person, newest first.
    pub troubles: Vec<Trouble>,
}

/// Jobs that share slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Jobs of it that may run at once; absent is no bound.
    pub slots: Option<u32>,
    /// Whether nothing new is started.
    pub paused: bool,
}

/// A change of a group, which is made if it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupChange {
    /// Jobs that may run at once; null is no bound, absent leaves it as it is.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub slots: Option<Option<u32>>,
    /// Whether nothing new is started; absent leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Something that went wrong and concerns a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    /// When it was last seen.
    pub time: Time,
    /// With which job, if with one.
    pub job: Option<String>,
    /// What happened.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
    /// How often it was seen.
    pub count: u32,
}
