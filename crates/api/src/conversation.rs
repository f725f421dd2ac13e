//! Conversations: chains of jobs around one session of an agent.

use lastword_core::view::row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::place::Used;
use crate::row::Row;

/// A conversation with an agent, by its newest job. Name, worktree, rules and budget belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Conversation {
    /// The id of the job that began it.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The number of its jobs so far, removed ones included.
    pub jobs: u32,
    /// What it used up, over all of its jobs.
    pub used: Used,
    /// Its newest job.
    pub newest: Row,
}

/// A conversation with its jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversationInFull {
    /// The id of the job that began it.
    pub id: String,
    /// What it used up, over all of its jobs.
    pub used: Used,
    /// Its newest job, with the limits, rules and the worktree that are in force.
    pub newest: Box<Job>,
    /// Its jobs, oldest first. Removed ones are missing.
    pub jobs: Vec<Row>,
}

impl Conversation {
    /// Converts the row of its newest job; `None` if that has no turns.
    pub fn of(row: &row::Row, newest: Row) -> Option<Conversation> {
        Some(Conversation {
            id: row.conversation?.to_string(),
            name: newest.name.clone(),
            jobs: row.summary.number,
            used: Used::of(row.summary.spending()),
            newest,
        })
    }
}
