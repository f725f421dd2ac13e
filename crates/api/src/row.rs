//! A job as a line of a list.

use std::collections::BTreeMap;

use lastword_core::view::row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::attempt::Exit;
use crate::enums::{Cause, Outcome, OutcomeDetail, Phase, SessionState};
use crate::waits::Waits;

/// A job as a line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The last eight characters of the id.
    pub short: String,
    /// Its name.
    pub name: Option<String>,
    /// Its command or prompt, in one line.
    pub title: String,
    /// Its phase.
    pub phase: Phase,
    /// When it may be started, while it waits.
    pub due_at: Option<Time>,
    /// The number of dependencies that have not ended.
    pub unmet: u32,
    /// What it waits for, while it is queued.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// Since when it has written nothing, while it runs and does not wait for a person.
    #[serde(default)]
    pub silent_since: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Details of the outcome.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// How the first process of the deciding attempt exited.
    pub exit: Option<Exit>,
    /// Its group.
    pub group: String,
    /// Higher starts first.
    pub priority: i16,
    /// Names and values for users and filters.
    pub labels: BTreeMap<String, String>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// Whether it waits for a person.
    pub waiting: bool,
    /// Whether its agent is working on a turn.
    pub working: bool,
    /// The state of its agent, if it runs and works on nothing: `ready` or `interrupted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<SessionState>,
    /// Whether it has ended and its ending was not read yet; absent where that is not known.
    #[serde(default)]
    pub unread: Option<bool>,
    /// The directory it was submitted from.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The job whose process submitted it.
    #[serde(default)]
    pub parent: Option<String>,
    /// The job that began its conversation; none if it has no turns.
    #[serde(default)]
    pub conversation: Option<String>,
    /// The job as which its conversation goes on.
    #[serde(default)]
    pub continued_by: Option<String>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When its first process tree was started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// When its newest event was decided.
    pub updated_at: Time,
    /// When its state last changed. Lists are ordered by it.
    #[serde(default)]
    pub changed_at: Option<Time>,
    /// The number of its newest event.
    pub version: u64,
}

impl Row {
    /// Converts a journal's row.
    pub fn of(row: &row::Row) -> Row {
        Row {
            id: row.job.to_string(),
            short: row.job.short(),
            name: row.summary.name.clone(),
            title: row.summary.title.clone(),
            phase: row.phase.into(),
            due_at: row.due.map(Time::from),
            unmet: row.summary.unmet,
            waits: None,
            silent_since: None,
            outcome: row.outcome.map(Outcome::from),
            outcome_detail: row.outcome.and_then(OutcomeDetail::of),
            cause: row.summary.cause.map(Cause::from),
            exit: row.summary.exit.map(Exit::from),
            group: row.group.clone(),
            priority: row.priority,
            labels: row.summary.labels.clone(),
            attempts: row.summary.attempts,
            waiting: row.summary.waiting,
            working: row.summary.working,
            rests: row.summary.rests.map(SessionState::from),
            unread: row.outcome.is_none().then_some(false),
            cwd: Some(row.summary.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            parent: row.summary.parent.map(|parent| parent.to_string()),
            conversation: row.conversation.map(|first| first.to_string()),
            continued_by: row.summary.continued_by.map(|next| next.to_string()),
            submitted_at: row.submitted_at.into(),
            started_at: row.summary.started_at.map(Time::from),
            ended_at: row.summary.ended_at.map(Time::from),
            updated_at: row.updated_at.into(),
            changed_at: Some(row.changed_at.into()),
            version: row.version.0,
        }
    }
}
