//! Conversations: a chain of jobs around one session of an agent, in order.
//!
//! A job ends once, so what goes on after its end is another job. It takes over what belongs to the conversation: its name, its worktree,
//! what a person allowed, and what was spent, so that a budget counts over all of its jobs. Each job of a chain names the one before it, and
//! the one before records which job follows. Only one can.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::question::StandingRule;
use crate::turn::Usage;

/// The place of a job in a conversation that another job began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The job that began it, whose id is that of the conversation.
    pub first: JobId,
    /// The job before.
    pub after: JobId,
    /// Its number: the first job has 1.
    pub number: u32,
}

/// What a job takes over from the jobs before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Carried {
    /// What they used up.
    pub spent: Spending,
    /// What a person allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<StandingRule>,
    /// Rules made, removed ones included.
    #[serde(skip_serializing_if = "is_zero")]
    pub rules_made: u32,
}

/// What was used up of the budget of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Spending {
    /// Tokens and money.
    pub usage: Usage,
    /// Turns begun.
    pub turns: u32,
    /// Awake milliseconds that ended turns took, without those in which a person was asked.
    pub active_ms: u64,
}

impl Spending {
    /// Adds more to this.
    pub fn add(&mut self, more: Spending) {
        self.usage.add(more.usage);
        self.turns = self.turns.saturating_add(more.turns);
        self.active_ms = self.active_ms.saturating_add(more.active_ms);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
