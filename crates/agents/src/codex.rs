//! Codex's app server: JSON-RPC over lines without its version, in words of its own.
//!
//! A handshake, a thread, then turns. An interrupt ends a turn and leaves what its tools started; so each is followed by a wish to
//! clean that up, and the agent counts as busy until that is answered.
//!
//! * `hear`: what a line of the agent means.
//! * `approval`: what it asks for, and the line that rules are held against.

mod approval;
mod hear;

use lastword_core::InputNo;
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Start;
use crate::dialogue::{Goals, Outgoing, Speak};
use crate::inputs::Inputs;
use crate::request::Requests;
use crate::rpc::{Asked, Message, Wire};
use crate::tokens::Tokens;
use crate::turn::Turn;
use crate::value::text;
use approval::Changes;
pub(crate) use approval::command;

const WIRE: Wire = Wire::Bare;

/// Bytes of an input, as JSON, that is kept until the agent has taken it into its turn. A longer one that is turned away is told of,
/// and lost.
const STEER_BYTES_MAX: usize = 2 << 10;

/// Inputs that are kept so.
const STEERS_MAX: usize = 4;

/// What is known of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Codex {
    stage: Stage,
    asked: Asked<Ask>,
    thread: Option<String>,
    /// The turn that is under way, or was last.
    turn_id: Option<String>,
    turn: Turn,
    clean: Clean,
    requests: Requests,
    changes: Changes,
    inputs: Inputs,
    /// Inputs that came too late for the turn they were meant for, and are prompts now.
    late: Vec<String>,
    /// What the thread has used so far, if that is known.
    used: Option<Tokens>,
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
    /// It answered, and is to be told that we know.
    Welcome,
    /// A thread can be opened.
    Ready,
    /// One was asked for.
    Opening,
    /// It is open.
    Open,
    /// No turn can be had from it any more.
    Broken,
}

/// What a request of ours was for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    Initialize,
    Thread,
    Turn,
    /// With the text, if it is short enough to be said again.
    Steer(Option<String>),
    Interrupt,
    Clean,
}

/// Whether an interrupted turn was cleaned up after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Clean {
    /// There is nothing to clean.
    #[default]
    Done,
    /// The turn has to end first.
    Later,
    /// It is due.
    Due,
    /// It was asked for.
    Asked,
}

impl Speak for Codex {
    fn heard(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        match Message::read(line) {
            Some(Message::Reply { id, result }) => self.replied(start, &id, result),
            Some(Message::Request { id, method, params }) => {
                let (request, text) = approval::request(start, &self.changes, id, &method, &params);
                self.requests.open(request, &text).into_iter().collect()
            }
            Some(Message::Notice { method, params }) => self.noticed(start, &method, &params),
            None => Vec::new(),
        }
    }

    fn wrote(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
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

    fn next(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        let handshake = if goals.stop { None } else { self.handshake(start) };
        handshake
            .or_else(|| self.interrupt(goals))
            .or_else(|| self.requests.due(WIRE, goals))
            .or_else(|| self.cleaning())
            .or_else(|| self.requests.answer(WIRE, goals, &self.inputs))
            .or_else(|| self.prompt(start, goals))
    }

    fn is_busy(&self) -> bool {
        self.turn.is_active() || self.clean != Clean::Done
    }
}

impl Codex {
    fn handshake(&self, start: &Start) -> Option<Outgoing> {
        match self.stage {
            Stage::Silent => {
                let client =
                    json!({ "name": "lastword", "title": "Lastword", "version": env!("CARGO_PKG_VERSION") });
                // Without it, there is no cleaning up after an interrupt.
                let capabilities = json!({ "experimentalApi": true });
                self.ask("initialize", json!({ "clientInfo": client, "capabilities": capabilities }))
            }
            Stage::Welcome => Outgoing::bare(json!({ "method": "initialized" })),
            Stage::Ready => {
                let mut params = json!({ "cwd": start.cwd });
                if asks_for_all(start) {
                    params["approvalPolicy"] = "untrusted".into();
                }
                match &start.resume {
                    Some(thread) => {
                        params["threadId"] = thread.as_str().into();
                        // What was said before is in a recording already.
                        params["excludeTurns"] = true.into();
                        self.ask(if start.fork { "thread/fork" } else { "thread/resume" }, params)
                    }
                    None => self.ask("thread/start", params),
                }
            }
            Stage::Greeted | Stage::Opening | Stage::Open | Stage::Broken => None,
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
            return Outgoing::with_input(steer.no, WIRE.request(self.asked.next(), "turn/steer", params));
        }
        let late = self.late.first().map(|text| (InputNo(0), text.as_str()));
        let (no, text) = late.or_else(|| self.inputs.prompt(start, goals))?;
        let params = json!({ "threadId": self.thread, "input": input(text) });
        Outgoing::with_input(no, WIRE.request(self.asked.next(), "turn/start", params))
    }

    fn ask(&self, method: &str, params: Value) -> Option<Outgoing> {
        Outgoing::bare(WIRE.request(self.asked.next(), method, params))
    }

    /// Takes note of a request of ours that was written.
    fn requested(&mut self, id: &Value, method: &str, params: &Value) -> Option<Signal> {
        let said = params["input"].get(0).and_then(|input| text(input, &["text"])).unwrap_or_default();
        let (ask, signal) = match method {
            "initialize" => {
                self.stage = Stage::Greeted;
                (Ask::Initialize, None)
            }
            "thread/start" | "thread/resume" | "thread/fork" => {
                self.stage = Stage::Opening;
                (Ask::Thread, None)
            }
            "turn/start" => {
                if self.late.first().is_some_and(|late| late == said) {
                    self.late.remove(0);
                }
                self.inputs.prompted();
                self.turn_id = None;
                (Ask::Turn, self.turn.begin())
            }
            "turn/steer" => {
                let short = Value::from(said).to_string().len() <= STEER_BYTES_MAX;
                (Ask::Steer(short.then(|| said.to_owned())), None)
            }
            "turn/interrupt" => {
                self.turn.interrupt();
                self.clean = if self.turn.is_active() { Clean::Later } else { Clean::Due };
                (Ask::Interrupt, None)
            }
            "thread/backgroundTerminals/clean" => {
                self.clean = Clean::Asked;
                (Ask::Clean, None)
            }
            _ => return None,
        };
        self.asked.note(id, ask);
        signal
    }
}

/// Reports whether the rules can only hold if the agent asks before what it does. Where all is allowed, its user has told it when to ask.
fn asks_for_all(start: &Start) -> bool {
    let rules = &start.permissions;
    rules.otherwise != Permission::Allow
        || rules.rules.iter().any(|rule| rule.permission != Permission::Allow)
}
