//! Codex's app server: JSON-RPC lines without the version field.
//!
//! A handshake, a thread, then turns. An interrupt ends a turn but leaves its background terminals running, so each interrupt is
//! followed by a request to clean them up, and the agent counts as busy until that is answered.
//!
//! * `hear`: the meaning of the lines that the agent writes.
//! * `approval`: what it requests, and the line that rules match.

mod approval;
mod hear;

use lastword_core::InputNo;
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inputs::Inputs;
use crate::protocol::{Goals, Outgoing, Protocol};
use crate::request::Requests;
use crate::rpc::{Framing, Message, PendingCalls};
use crate::start::Start;
use crate::tokens::Tokens;
use crate::turn::Turn;
use crate::value::text;
use approval::Changes;
pub(crate) use approval::command;

const FRAMING: Framing = Framing::Bare;

/// Longest steering input, in bytes of JSON, that is kept until the turn has accepted it. A longer one is lost if it is rejected, and a
/// note says so.
const STEER_BYTES_MAX: usize = 2 << 10;

/// Rejected steering inputs that are kept as prompts.
const STEERS_MAX: usize = 4;

/// The state of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Codex {
    stage: Stage,
    #[serde(rename = "asked")]
    calls: PendingCalls<Call>,
    thread: Option<String>,
    /// The id of the active or last turn.
    turn_id: Option<String>,
    /// The id of a turn that another one followed because Codex was idle. Its end may come late.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_turn_id: Option<String>,
    turn: Turn,
    clean: Clean,
    requests: Requests,
    /// Questions asked so far.
    #[serde(default)]
    questions: u32,
    changes: Changes,
    inputs: Inputs,
    /// Steering inputs that came too late for their turn and are prompts now.
    late: Vec<String>,
    /// Tokens the thread has used so far, if known.
    used: Option<Tokens>,
    /// The model of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// When its quota is restored, in seconds since 1970, while a window of it is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_until: Option<u64>,
    /// The first turn to forget.
    #[serde(skip_serializing_if = "Option::is_none")]
    revert_to: Option<String>,
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
    /// It was answered; `initialized` is due.
    Welcome,
    /// A thread can be opened.
    Ready,
    /// The thread was requested.
    Opening,
    /// It is open, and turns that did not complete are to be forgotten. The list of turns is due.
    Opened,
    /// It was requested.
    Listing,
    /// They are to be forgotten.
    Reverting,
    /// That was requested.
    Reverted,
    /// A copy without them is to be made.
    Copying,
    /// It was requested.
    Copied,
    /// The thread is open.
    Open,
    /// No further turn can start.
    Broken,
}

/// The purpose of a request of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    Initialize,
    Thread,
    List,
    Revert,
    Turn,
    /// With the text, if it is short enough to be sent again.
    Steer(Option<String>),
    Interrupt,
    Clean,
}

/// Progress of the clean-up after an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Clean {
    /// There is nothing to clean up.
    #[default]
    Done,
    /// The turn must end first.
    Later,
    /// It is due.
    Due,
    /// It was requested.
    Asked,
}

impl Protocol for Codex {
    fn read_line(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        match Message::read(line) {
            Some(Message::Reply { id, result }) => self.replied(start, &id, result),
            Some(Message::Request { id, method, params }) => {
                match approval::request(start, &mut self.changes, &id, &method, &params) {
                    Some((request, question)) => self.requests.open(request, question, &mut self.questions),
                    None => {
                        self.requests.refuse(id);
                        Vec::new()
                    }
                }
            }
            Some(Message::Notice { method, params }) => self.noticed(start, &method, &params),
            None => Vec::new(),
        }
    }

    fn line_written(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
        self.inputs.wrote(input);
        match Message::read(line)? {
            Message::Notice { method, .. } => {
                if method == "initialized" && self.stage == Stage::Welcome {
                    self.stage = Stage::Ready;
                }
                None
            }
            Message::Reply { id, result } => {
                let denied = self.requests.answered(&id, &result.unwrap_or_default());
                denied.into_iter().for_each(|line| self.turn.denied(line));
                None
            }
            Message::Request { id, method, params } => self.requested(&id, &method, &params),
        }
    }

    fn next_line(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        let handshake = if goals.stop { None } else { self.handshake(start) };
        handshake
            .or_else(|| self.interrupt(goals))
            .or_else(|| self.requests.due(FRAMING, goals))
            .or_else(|| self.cleaning())
            .or_else(|| self.requests.answer(FRAMING, goals, &self.inputs))
            .or_else(|| self.prompt(start, goals))
    }

    fn is_busy(&self) -> bool {
        self.turn.is_open() || self.clean != Clean::Done
    }

    fn died(&mut self, error: &str) -> Vec<Signal> {
        // A handshake that failed was reported.
        let is_known = self.thread.is_some() || self.stage == Stage::Broken;
        self.stage = Stage::Broken;
        self.turn.died(is_known, error)
    }
}

impl Codex {
    fn handshake(&self, start: &Start) -> Option<Outgoing> {
        match self.stage {
            Stage::Silent => {
                let client =
                    json!({ "name": "lastword", "title": "Lastword", "version": env!("CARGO_PKG_VERSION") });
                // Needed for the clean-up after an interrupt.
                let capabilities = json!({ "experimentalApi": true });
                self.ask("initialize", json!({ "clientInfo": client, "capabilities": capabilities }))
            }
            Stage::Welcome => Outgoing::bare(json!({ "method": "initialized" })),
            Stage::Ready | Stage::Copying => {
                let mut params = json!({ "cwd": start.cwd });
                if asks_for_all(start) {
                    params["approvalPolicy"] = "untrusted".into();
                }
                if let Some(model) = &start.model {
                    params["model"] = model.as_str().into();
                }
                if let Some(effort) = &start.effort {
                    params["config"] = json!({ "model_reasoning_effort": effort });
                }
                match &start.resume {
                    Some(thread) => {
                        params["threadId"] = thread.as_str().into();
                        // The earlier job's recording has those.
                        params["excludeTurns"] = true.into();
                        let is_copy = start.fork || self.stage == Stage::Copying;
                        if let Some(mark) = start.forget_after.as_deref().filter(|_| is_copy) {
                            params["lastTurnId"] = mark.into();
                        }
                        self.ask(if is_copy { "thread/fork" } else { "thread/resume" }, params)
                    }
                    None => self.ask("thread/start", params),
                }
            }
            Stage::Opened => {
                let params = json!({ "threadId": self.thread, "sortDirection": "desc" });
                self.ask("thread/turns/list", params)
            }
            Stage::Reverting => {
                let params = json!({ "threadId": self.thread, "beforeTurnId": self.revert_to });
                self.ask("thread/revert", params)
            }
            Stage::Greeted
            | Stage::Opening
            | Stage::Listing
            | Stage::Reverted
            | Stage::Copied
            | Stage::Open
            | Stage::Broken => None,
        }
    }

    fn interrupt(&self, goals: &Goals<'_>) -> Option<Outgoing> {
        let due = goals.interrupt && self.turn.is_active() && !self.turn.is_interrupted();
        let (thread, turn) = (self.thread.as_ref()?, self.turn_id.as_ref()?);
        due.then(|| self.ask("turn/interrupt", json!({ "threadId": thread, "turnId": turn })))?
    }

    fn cleaning(&self) -> Option<Outgoing> {
        let due = self.clean == Clean::Due;
        due.then(|| self.ask("thread/backgroundTerminals/clean", json!({ "threadId": self.thread })))?
    }

    fn prompt(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        if goals.stop || self.stage != Stage::Open || self.clean != Clean::Done {
            return None;
        }
        let input = |text: &str| json!([{ "type": "text", "text": text }]);
        if self.turn.is_active() {
            let turn = self.turn_id.as_ref().filter(|_| !goals.interrupt && !self.turn.is_interrupted())?;
            let steer = self.inputs.steer(goals)?;
            let params =
                json!({ "threadId": self.thread, "expectedTurnId": turn, "input": input(&steer.text) });
            return Outgoing::with_input(steer.no, FRAMING.request(self.calls.next(), "turn/steer", params));
        }
        let late = self.late.first().map(|text| (InputNo(0), text.as_str()));
        let (no, text) = late.or_else(|| self.inputs.prompt_of(&self.turn, start, goals))?;
        let params = json!({ "threadId": self.thread, "input": input(text) });
        Outgoing::with_input(no, FRAMING.request(self.calls.next(), "turn/start", params))
    }

    fn ask(&self, method: &str, params: Value) -> Option<Outgoing> {
        Outgoing::bare(FRAMING.request(self.calls.next(), method, params))
    }

    /// Records a request that was written.
    fn requested(&mut self, id: &Value, method: &str, params: &Value) -> Option<Signal> {
        let input_text = params["input"].get(0).and_then(|input| text(input, &["text"])).unwrap_or_default();
        let (ask, signal) = match method {
            "initialize" => {
                self.stage = Stage::Greeted;
                (Call::Initialize, None)
            }
            "thread/start" | "thread/resume" | "thread/fork" => {
                self.stage = if self.stage == Stage::Copying { Stage::Copied } else { Stage::Opening };
                (Call::Thread, None)
            }
            "thread/turns/list" => {
                self.stage = Stage::Listing;
                (Call::List, None)
            }
            "thread/revert" => {
                self.stage = Stage::Reverted;
                (Call::Revert, None)
            }
            "turn/start" => {
                if self.late.first().is_some_and(|late| late == input_text) {
                    self.late.remove(0);
                }
                self.inputs.prompted();
                self.idle_turn_id = self.turn_id.take().filter(|_| self.turn.is_inactive());
                (Call::Turn, self.turn.begin())
            }
            "turn/steer" => {
                let short = Value::from(input_text).to_string().len() <= STEER_BYTES_MAX;
                (Call::Steer(short.then(|| input_text.to_owned())), None)
            }
            "turn/interrupt" => {
                self.turn.interrupt();
                self.clean = if self.turn.is_active() { Clean::Later } else { Clean::Due };
                (Call::Interrupt, None)
            }
            "thread/backgroundTerminals/clean" => {
                self.clean = Clean::Asked;
                (Call::Clean, None)
            }
            _ => return None,
        };
        self.calls.note(id, ask);
        signal
    }
}

/// Reports whether the agent must ask before every action for the job's rules to hold. If everything is allowed, its own settings apply.
fn asks_for_all(start: &Start) -> bool {
    let rules = &start.permissions;
    rules.otherwise != Permission::Allow
        || rules.rules.iter().any(|rule| rule.permission != Permission::Allow)
}
