//! The fleet of a server: its workers, invitations of new ones, and what is stuck.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::WorkerState;

/// A fleet, as one of its servers sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fleet {
    /// Where workers reach this server, as `host:port`.
    pub address: String,
    /// The SHA-256 of its certificate.
    pub fingerprint: String,
    /// The workers, by name.
    pub workers: Vec<Worker>,
    /// Whether the database may have lost something, so that no job is given out until every lease from before is over.
    pub paused: bool,
    /// Jobs of workers whose lives are over. A server accounts for them within seconds; those that stay here are stuck.
    pub left_behind: Vec<LeftBehind>,
    /// Jobs that are due, and need labels that no connected worker has.
    pub unmatched: Vec<Unmatched>,
}

/// A worker of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// What it has, sorted. A job that needs labels goes to a worker with all of them.
    pub labels: Vec<String>,
    /// Whether it can be given jobs.
    pub state: WorkerState,
    /// How long ago this server saw it renew its lease, in milliseconds. Absent if it did not since this server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat_ago_ms: Option<u64>,
    /// The name of its host, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of its host, by which the journal knows where its jobs run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// How many jobs it runs at once, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// How many jobs it holds.
    pub jobs: u64,
    /// Its version, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it was enrolled.
    pub enrolled_at: Time,
}

/// Jobs that are held by an owner whose life is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftBehind {
    /// The name of the worker, or of a server.
    pub owner: String,
    /// How many.
    pub jobs: u64,
}

/// Jobs that wait for labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unmatched {
    /// All that they need. Empty if any worker will do and none is connected.
    pub labels: Vec<String>,
    /// How many.
    pub jobs: u64,
}

/// A request for a one-time token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// The name of the worker. A name that is enrolled keeps its worker until the token is used.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: String,
    /// What it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// A one-time token, and what a worker needs to use it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// The name of the worker.
    pub name: String,
    /// What it has, sorted.
    pub labels: Vec<String>,
    /// The token. It is shown once.
    pub token: String,
    /// How long it can be used, in milliseconds.
    pub valid_ms: u64,
    /// Where the worker reaches the server, as `host:port`.
    pub address: String,
    /// The SHA-256 of the server's certificate.
    pub fingerprint: String,
    /// Whether a worker is enrolled under this name. It is refused once the token is used.
    pub replaces: bool,
}

/// The token is left out: what is printed for debugging ends up in logs.
impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation")
            .field("name", &self.name)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}
