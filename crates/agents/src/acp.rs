//! The Agent Client Protocol, version 1, as its agents speak it.
//!
//! A handshake, a session, then prompts; the reply to a prompt ends its turn. Known limits:
//!
//! * Some agents reply `end_turn` after their model failed, with the error as a message. The failure is detected if the agent also
//!   reports it apart from the message (`codex-acp`), or if it reports usage and that message cost nothing (`goose`, and `copilot` if
//!   nothing else in the turn cost anything). With any other agent such a turn counts as completed.
//! * Some agents report the usage of the session, or of their last request, instead of the turn's. The former are known by name; for the
//!   latter (`goose`, `opencode`), tokens are a lower bound and money is exact.
//! * If an agent reports its total cost only at the end of a turn, the first turn of a resumed session is priced by the user's prices.

mod announced;
mod hear;
mod replay;
mod usage;

use std::collections::BTreeMap;

use lastword_core::InputNo;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inputs::Inputs;
use crate::protocol::{Goals, Outgoing, Protocol};
use crate::request::Requests;
use crate::rpc::{Framing, Message, PendingCalls};
use crate::start::Start;
use crate::turn::Turn;
use announced::AnnouncedTools;
use replay::Replay;
use usage::Account;

const FRAMING: Framing = Framing::Versioned;

/// The state of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Acp {
    stage: Stage,
    #[serde(rename = "asked")]
    calls: PendingCalls<Call>,
    /// The agent can resume a session.
    loads: bool,
    session: Option<String>,
    /// What is to be forgotten of a session that is loaded.
    #[serde(skip_serializing_if = "Replay::is_new")]
    replay: Replay,
    /// What its record calls the last thing that was said or done in this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Its model is one of its options, and has no request of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    model_is_option: bool,
    /// The option that is its effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    effort_option: Option<String>,
    turn: Turn,
    requests: Requests,
    /// Questions asked so far.
    #[serde(default)]
    questions: u32,
    inputs: Inputs,
    /// Titles of the running tools, by id.
    tools: BTreeMap<String, String>,
    /// What was said about them before they ask.
    #[serde(skip_serializing_if = "AnnouncedTools::is_empty")]
    announced: AnnouncedTools,
    /// The message whose parts are arriving.
    message: Option<PartialMessage>,
    /// The agent reported, apart from its messages, that its model failed.
    failed: bool,
    account: Account,
}

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// Nothing was sent yet.
    #[default]
    Silent,
    /// `initialize` was sent.
    Greeted,
    /// It was answered; a session can be opened.
    Ready,
    /// The session was requested.
    Opening,
    /// It is open, and a turn that did not complete is to be forgotten.
    Rewinding,
    /// That was requested.
    Rewound,
    /// It is open, and its model is to be chosen.
    Choosing,
    /// The model was requested.
    Chosen,
    /// The effort is to be chosen.
    Tuning,
    /// The effort was requested.
    Tuned,
    /// The session is open.
    Open,
    /// The handshake failed; no turn can start.
    Broken,
}

/// The purpose of a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    Initialize,
    Session,
    Rewind,
    Model,
    Effort,
    Prompt,
}

/// A message whose parts are arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PartialMessage {
    #[serde(rename = "name")]
    id: Option<String>,
    head: String,
    /// The first line of its last part.
    last: String,
}

impl Protocol for Acp {
    fn read_line(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        match Message::read(line) {
            Some(Message::Reply { id, result }) => self.replied(start, &id, result),
            Some(Message::Request { id, method, params }) => self.agent_request(start, id, &method, &params),
            Some(Message::Notice { method, params }) if method == "session/update" => {
                self.updated(start, &params)
            }
            Some(Message::Notice { .. }) | None => Vec::new(),
        }
    }

    fn line_written(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
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

    fn next_line(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        let handshake = if goals.stop { None } else { self.handshake(start) };
        handshake
            .or_else(|| self.cancel(goals))
            .or_else(|| self.requests.due(FRAMING, goals))
            .or_else(|| self.requests.answer(FRAMING, goals, &self.inputs))
            .or_else(|| self.prompt(start, goals))
    }

    fn is_busy(&self) -> bool {
        self.turn.is_open()
    }

    fn died(&mut self, error: &str) -> Vec<Signal> {
        // A handshake that failed was reported.
        let is_known = self.session.is_some() || self.stage == Stage::Broken;
        self.stage = Stage::Broken;
        self.turn.died(is_known, error)
    }
}

impl Acp {
    fn handshake(&self, start: &Start) -> Option<Outgoing> {
        match self.stage {
            Stage::Silent => {
                // Agents read, write and run commands themselves; none of that is offered to them.
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
            Stage::Choosing => {
                let model = start.model.as_deref()?;
                match self.model_is_option {
                    true => self.set_option("model", model),
                    false => {
                        let params = json!({ "sessionId": self.session, "modelId": model });
                        self.ask(InputNo(0), "session/set_model", params)
                    }
                }
            }
            Stage::Tuning => self.set_option(self.effort_option.as_deref()?, start.effort.as_deref()?),
            Stage::Rewinding => {
                let params = json!({ "sessionId": self.session, "truncateFrom": self.replay.cut()? });
                self.ask(InputNo(0), start.rewind.as_deref()?, params)
            }
            Stage::Greeted
            | Stage::Opening
            | Stage::Rewound
            | Stage::Chosen
            | Stage::Tuned
            | Stage::Open
            | Stage::Broken => None,
        }
    }

    fn set_option(&self, option: &str, value: &str) -> Option<Outgoing> {
        let params = json!({ "sessionId": self.session, "configId": option, "value": value });
        self.ask(InputNo(0), "session/set_config_option", params)
    }

    fn cancel(&self, goals: &Goals<'_>) -> Option<Outgoing> {
        let due = goals.interrupt && self.turn.is_active() && !self.turn.is_interrupted();
        let session = self.session.as_ref().filter(|_| due)?;
        Outgoing::bare(FRAMING.notice("session/cancel", json!({ "sessionId": session })))
    }

    fn prompt(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        if goals.stop || self.stage != Stage::Open || self.turn.is_active() {
            return None;
        }
        let (no, text) = self.inputs.prompt_of(&self.turn, start, goals)?;
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask(no, "session/prompt", json!({ "sessionId": self.session, "prompt": prompt }))
    }

    fn ask(&self, input: InputNo, method: &str, params: Value) -> Option<Outgoing> {
        Outgoing::with_input(input, FRAMING.request(self.calls.next(), method, params))
    }

    /// Records a request that was written.
    fn requested(&mut self, id: &Value, method: &str) -> Option<Signal> {
        let (ask, signal) = match method {
            "initialize" => {
                self.stage = Stage::Greeted;
                (Call::Initialize, None)
            }
            "session/new" | "session/load" => {
                self.stage = Stage::Opening;
                (Call::Session, None)
            }
            _ if self.stage == Stage::Rewinding => {
                self.stage = Stage::Rewound;
                (Call::Rewind, None)
            }
            "session/set_config_option" if self.stage == Stage::Tuning => {
                self.stage = Stage::Tuned;
                (Call::Effort, None)
            }
            "session/set_config_option" | "session/set_model" => {
                self.stage = Stage::Chosen;
                (Call::Model, None)
            }
            "session/prompt" => {
                self.inputs.prompted();
                self.tools.clear();
                self.announced.clear();
                (self.message, self.failed, self.last) = (None, false, None);
                self.account.begin();
                let begun = self.turn.begin();
                self.turn.message();
                (Call::Prompt, begun)
            }
            _ => return None,
        };
        self.calls.note(id, ask);
        signal
    }
}
