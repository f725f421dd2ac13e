//! What an agent's session and its turns are made of: states, endings, and what a turn adds to the conversation.

use serde::{Deserialize, Serialize};

use crate::limits::Limit;

/// The state of an agent's session. Only the first two allow an active turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It is starting.
    Starting,
    /// It is working on a turn.
    Running,
    /// It is waiting for a prompt.
    Ready,
    /// Its turn was interrupted.
    Interrupted,
    /// It has ended.
    Stopped,
    /// It has ended with an error.
    Errored,
}

impl SessionState {
    /// Reports whether a turn may be active in this state.
    pub fn may_hold_turn(self) -> bool {
        matches!(self, SessionState::Starting | SessionState::Running)
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnding {
    /// The agent reports that it is done.
    Completed,
    /// The agent reports that it failed.
    Failed,
    /// The agent aborted it.
    Aborted,
    /// The model refused.
    Refused,
    /// A limit of the agent or its model was reached.
    Limited,
    /// The job was asked to stop.
    Cancelled,
    /// A limit of the job was reached.
    OverLimit(Limit),
    /// A user interrupted it.
    Interrupted,
    /// Another turn took its place.
    Superseded,
    /// The agent exited or its connection broke.
    AgentExit,
    /// The agent's runtime failed.
    RuntimeError,
}

/// The changes of a completed turn to the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Commit {
    /// The number of messages added.
    pub messages: u32,
    /// The offset of the recording up to which the transcript reaches.
    pub transcript: u64,
    /// Tool uses that were denied.
    pub denials: Vec<String>,
    /// Usage as the agent reports it.
    pub usage: Usage,
    /// The agent's reference for resuming from here.
    pub resume: Option<String>,
    /// Where in the agent's record the turn ends: all that is recorded after that can be forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Money, in millionths of a dollar.
    pub money_micros: u64,
}

impl Usage {
    /// Adds more usage to this.
    pub fn add(&mut self, more: Usage) {
        self.tokens_in = self.tokens_in.saturating_add(more.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(more.tokens_out);
        self.money_micros = self.money_micros.saturating_add(more.money_micros);
    }

    /// Returns the sum of input and output tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}

impl TurnEnding {
    /// Reports whether the agent was told to end the turn.
    pub fn was_told(self) -> bool {
        matches!(self, TurnEnding::Cancelled | TurnEnding::Interrupted | TurnEnding::OverLimit(_))
    }
}
