//! What the process of a job inherits besides its environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Umask, resource limits and nice value of a process. An unprivileged daemon cannot raise a hard limit above its own or lower its nice
/// value: what it could not give is said in `withheld` of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Attributes {
    /// The umask as a number: 18 is 022. Absent: 022.
    pub umask: Option<u32>,
    /// The nice value, from -20 to 19. Absent: the daemon's.
    pub nice: Option<i32>,
    /// Resource limits by the names that prlimit(1) has for them, such as `nofile`. Those not named are the daemon's.
    pub limits: BTreeMap<String, ResourceLimit>,
}

/// A resource limit; null is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimit {
    /// What applies.
    pub soft: Option<u64>,
    /// What it can be raised to.
    pub hard: Option<u64>,
}
