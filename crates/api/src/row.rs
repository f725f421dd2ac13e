//! A job as a line of a list.

use std::collections::BTreeMap;

use lastword_core::view::row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::asks::Asks;
use crate::attempt::Exit;
use crate::enums::{Cause, Outcome, OutcomeDetail, Phase, SessionState};
use crate::limits::UsedLimit;
use crate::waits::Waits;
use crate::{Time, Usage};

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
    /// The name of its agent; none for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The host of its newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The branch of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
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
    /// What it asks that person: the question that has waited longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Asks>,
    /// What its newest attempt said of its work. Written by a process of the job: do not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Whether its agent is working on a turn.
    pub working: bool,
    /// What its agent did last, while it works on a turn. Written by the agent: do not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// The turns that its agent has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The tokens and the money that it has spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Usage>,
    /// The limit of turns, tokens, money or the time of all turns that is nearest to being reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<UsedLimit>,
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

/// The snapshot that a stream of rows begins with is complete: a job of an earlier connection that is not in it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowsHere {
    /// How many rows there are.
    pub rows: u64,
}

/// A job that a stream of rows had was removed, or no longer passes the filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowGone {
    /// Its id.
    pub id: String,
}

impl Row {
    /// Converts a journal's row.
    pub fn of(row: &row::Row) -> Row {
        Row {
            id: row.job.to_string(),
            short: row.job.short(),
            name: row.summary.name.clone(),
            title: row.summary.title.clone(),
            agent: row.summary.agent.clone(),
            host: row.summary.host.as_ref().map(|host| host.0.to_string()),
            branch: row.summary.branch.clone(),
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
            asks: row.summary.asks.as_deref().map(Asks::of),
            progress: row.summary.progress.clone(),
            working: row.summary.working,
            did: row.summary.did.clone(),
            turns: row.conversation.map(|_| row.summary.turns),
            spent: Some(Usage::of(row.summary.usage)).filter(|spent| *spent != Usage::default()),
            nearest: row.summary.nearest.map(UsedLimit::of),
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
