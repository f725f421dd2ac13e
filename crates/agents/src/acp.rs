//! The Agent Client Protocol, version 1, as its agents speak it.
//!
//! A handshake, a session, then prompts: the answer to a prompt is the end of its turn. What cannot be told apart:
//!
//! * An agent that answers `end_turn` after its model failed, with the error as a message. It is known for a failure where the agent
//!   also says so beside the message (`codex-acp`), or where it accounts for what it spends and the message is its own and cost nothing
//!   (`goose`, and `copilot` if nothing else in the turn cost anything). Of any other agent, such a turn completes.
//! * What one turn used, from agents that account for the session or for their last request. The former are known by name; of the
//!   latter (`goose`, `opencode`), tokens are a lower bound and the money is exact.
//! * What the first turn of a resumed session cost, if the agent says the sum only when it ends: the user's prices count, if there are any.

mod hear;
mod usage;

use std::collections::BTreeMap;

use lastword_core::InputNo;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Start;
use crate::dialogue::{Goals, Outgoing, Speak};
use crate::inputs::Inputs;
use crate::request::Requests;
use crate::rpc::{Asked, Message, Wire};
use crate::turn::Turn;
use usage::Account;

const WIRE: Wire = Wire::Versioned;

/// What is known of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Acp {
    stage: Stage,
    asked: Asked<Ask>,
    /// The agent can go on with a session.
    loads: bool,
    session: Option<String>,
    turn: Turn,
    requests: Requests,
    inputs: Inputs,
    /// Tools that run, each with its title.
    tools: BTreeMap<String, String>,
    /// The message that is being written.
    message: Option<Words>,
    /// The agent says, beside its messages, that its model failed.
    failed: bool,
    account: Account,
}

/// How far the handshake is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// Nothing was said.
    #[default]
    Silent,
    /// The agent was greeted.
    Greeted,
    /// A session can be opened.
    Ready,
    /// One was asked for.
    Opening,
    /// It is open.
    Open,
    /// No turn can be had from it.
    Broken,
}

/// What a request of ours was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    Initialize,
    Session,
    Prompt,
}

/// The beginning of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Words {
    name: Option<String>,
    head: String,
    /// The beginning of its last part.
    last: String,
}

impl Speak for Acp {
    fn heard(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        match Message::read(line) {
            Some(Message::Reply { id, result }) => self.replied(start, &id, result),
            Some(Message::Request { id, method, params }) => self.agent_request(start, id, &method, &params),
            Some(Message::Notice { method, params }) if method == "session/update" => {
                self.updated(start, &params)
            }
            Some(Message::Notice { .. }) | None => Vec::new(),
        }
    }

    fn wrote(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
        self.inputs.wrote(input);
        match Message::read(line)? {
            Message::Notice { method, .. } => {
                if method == "session/cancel" {
                    self.turn.interrupt();
                    self.requests.cancel();
                }
                None
            }
            Message::Reply { id, result } => {
                let denied = self.requests.answered(&id, &result.unwrap_or_default());
                denied.into_iter().for_each(|line| self.turn.denied(line));
                None
            }
            Message::Request { id, method, .. } => self.requested(&id, &method),
        }
    }

    fn next(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        let handshake = if goals.stop { None } else { self.handshake(start) };
        handshake
            .or_else(|| self.cancel(goals))
            .or_else(|| self.requests.due(WIRE, goals))
            .or_else(|| self.requests.answer(WIRE, goals, &self.inputs))
            .or_else(|| self.prompt(start, goals))
    }

    fn is_busy(&self) -> bool {
        self.turn.is_active()
    }
}

impl Acp {
    fn handshake(&self, start: &Start) -> Option<Outgoing> {
        match self.stage {
            Stage::Silent => {
                // It reads, writes and runs by itself; nothing is done for it here.
                let capabilities =
                    json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
                let client =
                    json!({ "name": "lastword", "title": "Lastword", "version": env!("CARGO_PKG_VERSION") });
                let params =
                    json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": client });
                self.ask(InputNo(0), "initialize", params)
            }
            Stage::Ready => match &start.resume {
                Some(session) => {
                    let params = json!({ "sessionId": session, "cwd": start.cwd, "mcpServers": [] });
                    self.ask(InputNo(0), "session/load", params)
                }
                None => self.ask(InputNo(0), "session/new", json!({ "cwd": start.cwd, "mcpServers": [] })),
            },
            Stage::Greeted | Stage::Opening | Stage::Open | Stage::Broken => None,
        }
    }

    fn cancel(&self, goals: &Goals<'_>) -> Option<Outgoing> {
        let due = goals.interrupt && self.turn.is_active() && !self.turn.is_interrupted();
        let session = self.session.as_ref().filter(|_| due)?;
        Outgoing::bare(WIRE.notice("session/cancel", json!({ "sessionId": session })))
    }

    fn prompt(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        if goals.stop || self.stage != Stage::Open || self.turn.is_active() {
            return None;
        }
        let (no, text) = self.inputs.prompt(start, goals)?;
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask(no, "session/prompt", json!({ "sessionId": self.session, "prompt": prompt }))
    }

    fn ask(&self, input: InputNo, method: &str, params: Value) -> Option<Outgoing> {
        Outgoing::with_input(input, WIRE.request(self.asked.next(), method, params))
    }

    /// Takes note of a request of ours that was written.
    fn requested(&mut self, id: &Value, method: &str) -> Option<Signal> {
        let (ask, signal) = match method {
            "initialize" => {
                self.stage = Stage::Greeted;
                (Ask::Initialize, None)
            }
            "session/new" | "session/load" => {
                self.stage = Stage::Opening;
                (Ask::Session, None)
            }
            "session/prompt" => {
                self.inputs.prompted();
                self.tools.clear();
                (self.message, self.failed) = (None, false);
                self.account.begin();
                let begun = self.turn.begin();
                self.turn.message();
                (Ask::Prompt, begun)
            }
            _ => return None,
        };
        self.asked.note(id, ask);
        signal
    }
}
