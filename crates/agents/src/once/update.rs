//! What one line of a one-shot agent says, in terms common to all formats.

use lastword_core::event::TurnEnding;
use serde::{Deserialize, Serialize};

use crate::tokens::Tokens;

/// The output format of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// `codex exec --json`.
    Codex,
    /// `claude -p --output-format stream-json`, and qwen's.
    Claude,
    /// `gemini -p … -o stream-json`.
    Gemini,
    /// `goose run --output-format stream-json`.
    Goose,
    /// `opencode run --format json`.
    Opencode,
    /// `copilot -p … --output-format json`.
    Copilot,
}

/// One thing that a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Update {
    /// The name of the conversation.
    Session(String),
    /// A whole message.
    Message(String),
    /// What the agent thinks, whole.
    Reasoning(String),
    /// Where in the agent's record the conversation ends now.
    Mark(String),
    /// Part of a message, with the message's id if there is one.
    MessagePart(Option<String>, String),
    /// A tool started.
    ToolStarted { id: String, title: String },
    /// A tool ended. The title is given here if the start did not give it.
    ToolEnded {
        id: Option<String>,
        title: Option<String>,
        /// How it failed, if it did.
        outcome: Option<String>,
        output: String,
    },
    /// Tokens spent since the last account, and their cost in millionths of a dollar if the agent says it.
    Spent(Tokens, Option<u64>),
    /// The total since the last such total. It includes every [`Update::Spent`] in between.
    Total(Tokens, Option<u64>),
    /// The total of the whole conversation, earlier jobs included.
    ConversationTotal(Tokens, Option<u64>),
    /// How many background tasks are running.
    Background(usize),
    /// The agent was denied a tool use.
    Denied(String),
    /// A remark for people.
    Note(String),
    /// An error. A turn that is reported completed after it has failed.
    Error(String),
    /// A step started, so the turn is not over yet.
    StepStarted,
    /// The last step ended. The exit status says whether the turn completed.
    LastStepEnded,
    /// The turn ended, with what went wrong.
    TurnEnded(TurnEnding, Option<String>),
}
