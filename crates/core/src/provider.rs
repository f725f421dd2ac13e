//! What a provider says instead of an answer, and how a job waits for it: without a slot and without a process.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptNo, JobId, Timestamp, TurnNo};
use crate::spec::Unfinished;

/// How long a job waits for its provider at most, unless told otherwise: one day.
pub const BOUND_MS: u64 = 24 * 60 * 60 * 1_000;

/// What an agent is told if its provider refused to answer in the middle of a turn.
pub const GO_ON: &str = "Continue where you stopped.";

/// Why a provider refused to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// The quota of the account is used up.
    Quota,
    /// It has too much to do.
    Overload,
}

/// Until when a provider refuses to answer, as far as it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reset {
    /// It does not say.
    Unknown,
    /// Until then, by the wall clock.
    At(Timestamp),
    /// For so many milliseconds from now on.
    After(u64),
}

/// How a job waits for its provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// The account whose jobs wait together.
    pub account: String,
    /// Why.
    pub why: Refused,
    /// Since when it waits; a try that was refused again does not change it.
    pub since: Timestamp,
    /// Nothing is sent before.
    pub until: Timestamp,
    /// When it gives up.
    pub ends_at: Timestamp,
    /// How often it was refused in a row.
    pub times: u32,
    /// It may try.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_opened: bool,
}

impl Wait {
    /// Returns its place among the jobs that wait for the same account.
    pub fn place(&self, job: JobId) -> (Timestamp, JobId) {
        (self.since, job)
    }
}

/// How an attempt goes on after its provider refused to answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Again {
    /// The attempt.
    pub attempt: AttemptNo,
    /// Its first prompt.
    pub prompt: String,
    /// The agent's reference for the session that it goes on with.
    pub reference: Option<String>,
    /// It is a copy of that session.
    pub is_copy: bool,
    /// Where in its record the last completed turn ends.
    pub at: Option<String>,
    /// What becomes of what is recorded after that.
    pub unfinished: Option<Unfinished>,
}

/// What a turn was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// The turn.
    pub turn: TurnNo,
    /// What began it.
    pub prompt: String,
    /// What was added while it was active.
    pub added: String,
}
