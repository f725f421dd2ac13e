//! Claude Code: lines of JSON both ways, one process for many turns.
//!
//! Its own words are not believed without a look: a failed call of its model is a `success` that `is_error`, and a `result` is the
//! end of a turn, not of the process. Each turn opens with an `init`, also one that it begins by itself with a message it had queued.

use std::collections::BTreeMap;

use lastword_core::InputNo;
use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Start;
use crate::dialogue::{Goals, Outgoing, Speak};
use crate::inputs::Inputs;
use crate::permission::{Answer, ToolUse};
use crate::value::{at, items, line, micros, number, text};

/// Questions and tools that are remembered at once. Who asks or runs more is not an agent at work.
const OPEN_MAX: usize = 64;

/// What is known of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Claude {
    /// Its name for the conversation.
    session: Option<String>,
    inputs: Inputs,
    /// Messages that were written and not taken up yet.
    unread: u32,
    /// The message that began the turn was not read back yet.
    owed: bool,
    /// A turn is under way.
    turn: bool,
    /// Its interruption was asked for.
    interrupted: bool,
    /// What it wants to do and may not yet, by its name for the request.
    asks: BTreeMap<String, Ask>,
    /// Requests that we do not understand and that want an answer.
    strange: Vec<String>,
    /// Tools at work: what each does.
    tools: BTreeMap<String, String>,
    /// Background work, as it was last said.
    background: u32,
    /// The same, as it was last passed on.
    told: u32,
    /// Whole messages in this turn.
    messages: u32,
    /// What this turn has spent so far.
    spent: Usage,
    /// What the process has spent so far, in money.
    money_micros: u64,
}

/// A wish to use a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ask {
    /// By the rules of the job.
    permission: Permission,
    /// A question for a person, and not only for leave.
    is_question: bool,
    /// What the tool is to be given, which has to be given back.
    input: Value,
}

impl Speak for Claude {
    fn heard(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        let Ok(said) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        match (text(&said, &["type"]), text(&said, &["subtype"])) {
            (Some("system"), Some("init")) => self.turn_began(start, &said),
            (Some("system"), Some("background_tasks_changed")) => {
                self.background = u32::try_from(items(&said, &["tasks"]).len()).unwrap_or(u32::MAX);
                self.tell_background()
            }
            (Some("stream_event"), _) => self.streamed(&said),
            (Some("assistant"), _) => self.answered(&said),
            (Some("user"), _) => self.noted(&said),
            (Some("control_request"), _) => self.asked(start, &said),
            (Some("control_cancel_request"), _) => self.withdrew(&said),
            (Some("result"), subtype) => self.turn_ended(&said, subtype.unwrap_or_default()),
            _ => Vec::new(),
        }
    }

    fn wrote(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
        let said = serde_json::from_slice::<Value>(line).ok()?;
        self.inputs.wrote(input);
        match text(&said, &["type"])? {
            "user" => {
                self.inputs.prompted();
                self.unread = self.unread.saturating_add(1);
            }
            "control_request" => self.interrupted = true,
            "control_response" => {
                let request = text(&said, &["response", "request_id"])?;
                self.asks.remove(request);
                self.strange.retain(|strange| strange != request);
            }
            _ => {}
        }
        // It says by itself that a turn begins.
        None
    }

    fn next(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        if let Some(request) = self.strange.first() {
            return Outgoing::bare(refusal(request));
        }
        let ruled = self.asks.iter().find(|(_, ask)| ask.permission != Permission::Ask);
        if let Some((request, ask)) = ruled {
            return Outgoing::bare(match ask.permission {
                Permission::Allow => allowed(request, &ask.input),
                _ => denied(request, "the rules of this job do not allow it"),
            });
        }
        if goals.interrupt && self.turn && !self.interrupted {
            return Outgoing::bare(json!({
                "type": "control_request", "request_id": "interrupt", "request": { "subtype": "interrupt" }
            }));
        }
        let answer = self.inputs.answers(goals).find_map(|input| {
            let question = input.question.as_ref()?;
            Outgoing::with_input(input.no, self.asks.get(question)?.answer(question, &input.text))
        });
        answer.or_else(|| {
            let (no, text) = match (goals.stop, self.turn) {
                (true, _) => None,
                (false, true) => self.inputs.steer(goals).map(|input| (input.no, input.text.as_str())),
                (false, false) if self.is_busy() => None,
                (false, false) => self.inputs.prompt(start, goals),
            }?;
            Outgoing::with_input(no, message(text))
        })
    }

    fn is_busy(&self) -> bool {
        self.turn || self.unread > 0
    }
}

impl Claude {
    fn turn_began(&mut self, start: &Start, said: &Value) -> Vec<Signal> {
        let mut signals = Vec::new();
        let session = text(said, &["session_id"]).map(str::to_owned);
        if !self.turn && (self.session.is_none() || self.session != session) {
            self.session.clone_from(&session);
            let resumed_from = start.resume.clone();
            signals.push(Signal::SessionStarted { reference: session, resumed_from });
            self.told = 0;
        }
        if !self.turn {
            self.turn = true;
            self.interrupted = false;
            self.owed = self.unread > 0;
            self.unread = self.unread.saturating_sub(1);
            self.messages = 0;
            self.spent = Usage::default();
            signals.push(Signal::TurnStarted);
        }
        signals
    }

    /// A message is streamed piece by piece; what it cost is said with its end.
    fn streamed(&mut self, said: &Value) -> Vec<Signal> {
        match text(said, &["event", "type"]) {
            Some("message_delta") => match at(said, &["event", "usage"]).map(usage) {
                Some(spent) if spent != Usage::default() => {
                    self.spent.add(spent);
                    vec![Signal::Spent(spent)]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn answered(&mut self, said: &Value) -> Vec<Signal> {
        let mut signals = Vec::new();
        // Not of its model: what went wrong is said again with the end of the turn.
        if text(said, &["message", "model"]) == Some("<synthetic>") {
            return signals;
        }
        for block in items(said, &["message", "content"]) {
            match text(block, &["type"]) {
                Some("tool_use") => {
                    let (id, name) = (text(block, &["id"]), text(block, &["name"]).unwrap_or("a tool"));
                    let title = ToolUse::from_input(name, &block["input"]).line();
                    if let Some(id) = id.filter(|_| self.tools.len() < OPEN_MAX)
                        && self.tools.insert(id.to_owned(), line(&title)).is_none()
                    {
                        signals.push(Signal::ToolStarted);
                    }
                }
                Some("text") => {
                    self.messages = self.messages.saturating_add(1);
                    let title = line(text(block, &["text"]).unwrap_or_default());
                    if !title.is_empty() {
                        signals.push(Signal::ItemCompleted { title });
                    }
                }
                _ => {}
            }
        }
        signals
    }

    /// A message to it that it took up, or what a tool brought.
    fn noted(&mut self, said: &Value) -> Vec<Signal> {
        if said["isReplay"] == true {
            if !std::mem::take(&mut self.owed) {
                self.unread = self.unread.saturating_sub(1);
            }
            return Vec::new();
        }
        let mut signals = Vec::new();
        for block in items(said, &["message", "content"]) {
            let Some(title) = text(block, &["tool_use_id"]).and_then(|id| self.tools.remove(id)) else {
                continue;
            };
            let title = if block["is_error"] == true { format!("{title} (failed)") } else { title };
            signals.extend([Signal::ToolEnded, Signal::ItemCompleted { title }]);
        }
        signals
    }

    fn asked(&mut self, start: &Start, said: &Value) -> Vec<Signal> {
        let Some(request) = text(said, &["request_id"]) else { return Vec::new() };
        let asks = &said["request"];
        if text(asks, &["subtype"]) != Some("can_use_tool") || self.asks.len() >= OPEN_MAX {
            if self.strange.len() < OPEN_MAX {
                self.strange.push(request.to_owned());
            }
            return Vec::new();
        }
        let tool = text(asks, &["tool_name"]).unwrap_or("a tool");
        let is_question = tool == "AskUserQuestion";
        let tool_use = ToolUse::from_input(tool, &asks["input"]);
        let permission = match is_question {
            // Nobody but a person can answer it.
            true if start.permissions.otherwise != Permission::Deny => Permission::Ask,
            _ => tool_use.permission(&start.permissions),
        };
        self.asks.insert(request.to_owned(), Ask { permission, is_question, input: asks["input"].clone() });
        match permission {
            Permission::Ask => {
                let text = if is_question { question(&asks["input"]) } else { tool_use.line() };
                vec![Signal::QuestionAsked { question: request.to_owned(), text }]
            }
            Permission::Allow | Permission::Deny => Vec::new(),
        }
    }

    fn withdrew(&mut self, said: &Value) -> Vec<Signal> {
        let request = text(said, &["request_id"]).unwrap_or_default();
        match self.asks.remove(request) {
            Some(_) => vec![Signal::QuestionClosed { question: request.to_owned() }],
            None => Vec::new(),
        }
    }

    fn turn_ended(&mut self, said: &Value, subtype: &str) -> Vec<Signal> {
        let mut signals = Vec::new();
        let whole = usage(&said["usage"]);
        let total = micros(said, &["total_cost_usd"]).unwrap_or(0);
        let money = of_turn(said).unwrap_or_else(|| total.saturating_sub(self.money_micros));
        let rest = Usage {
            tokens_in: whole.tokens_in.saturating_sub(self.spent.tokens_in),
            tokens_out: whole.tokens_out.saturating_sub(self.spent.tokens_out),
            money_micros: money,
        };
        if rest != Usage::default() {
            signals.push(Signal::Spent(rest));
        }
        self.money_micros = self.money_micros.max(total);
        let ending = ending(said, subtype);
        let denials = items(said, &["permission_denials"]).iter().map(|denial| {
            let tool = text(denial, &["tool_name"]).unwrap_or("a tool");
            line(&ToolUse::from_input(tool, &denial["tool_input"]).line())
        });
        let commit = Commit {
            messages: self.messages,
            transcript: 0,
            denials: denials.take(OPEN_MAX).collect(),
            usage: Usage { money_micros: rest.money_micros, ..whole },
            resume: text(said, &["session_id"]).map(str::to_owned),
        };
        let is_wrong = !matches!(ending, TurnEnding::Completed | TurnEnding::Aborted);
        let error = is_wrong.then(|| complaint(said, subtype));
        signals.push(Signal::TurnEnded { ending, error, commit });
        (self.turn, self.interrupted, self.owed) = (false, false, false);
        self.tools.clear();
        self.asks.clear();
        if ending == TurnEnding::Completed {
            signals.extend(self.tell_background());
        }
        signals
    }

    /// Passes on what goes on outside turns. A message that was not taken up becomes a turn of its own, and counts as such.
    fn tell_background(&mut self) -> Vec<Signal> {
        let background = self.background.saturating_add(if self.turn { 0 } else { self.unread });
        if background == self.told {
            return Vec::new();
        }
        self.told = background;
        let state = if self.turn { SessionState::Running } else { SessionState::Ready };
        vec![Signal::SessionChanged { state, background }]
    }
}

impl Ask {
    /// Returns what is said to it when a person has answered.
    fn answer(&self, request: &str, said: &str) -> Value {
        if self.is_question && Answer::read(said) != Answer::Deny("") {
            let asked = items(&self.input, &["questions"]).iter();
            let answers = asked.filter_map(|asked| Some((text(asked, &["question"])?.to_owned(), said)));
            let mut input = self.input.clone();
            input["answers"] = answers.collect::<BTreeMap<String, &str>>().into_iter().collect();
            return allowed(request, &input);
        }
        match Answer::read(said) {
            Answer::Allow => allowed(request, &self.input),
            Answer::Deny("") => denied(request, "the person who was asked does not allow it"),
            Answer::Deny(reason) => denied(request, reason),
        }
    }
}

/// Returns how a turn ended, by its own account looked at closely.
pub(crate) fn ending(said: &Value, subtype: &str) -> TurnEnding {
    let reason = text(said, &["terminal_reason"]).unwrap_or_default();
    let is_error = said["is_error"] == true;
    match subtype {
        _ if reason.starts_with("aborted") => TurnEnding::Aborted,
        _ if text(said, &["stop_reason"]) == Some("refusal") => TurnEnding::Refused,
        "success" if !is_error && matches!(reason, "" | "completed") => TurnEnding::Completed,
        "success" if number(said, &["api_error_status"]) == Some(429) => TurnEnding::Limited,
        "error_max_turns" | "error_max_budget_usd" => TurnEnding::Limited,
        _ => TurnEnding::Failed,
    }
}

/// Returns what a turn cost, where that is said by model. The total counts from the beginning of the conversation, which may be another
/// process's.
pub(crate) fn of_turn(said: &Value) -> Option<u64> {
    let models = said.get("model_usage_since_last_result")?.as_object()?;
    let costs = models.values().filter_map(|model| micros(model, &["costUSD"]));
    Some(costs.fold(0, u64::saturating_add))
}

/// Returns what went wrong, in its words.
pub(crate) fn complaint(said: &Value, subtype: &str) -> String {
    let errors: Vec<&str> = items(said, &["errors"]).iter().filter_map(Value::as_str).collect();
    let words = [text(said, &["result"]).unwrap_or_default().to_owned(), errors.join("; ")];
    let reason = text(said, &["terminal_reason"]).unwrap_or(subtype).to_owned();
    words.into_iter().find(|words| !words.trim().is_empty()).unwrap_or(reason)
}

/// Returns what was used, with what came from a cache.
fn usage(said: &Value) -> Usage {
    let count = |name| number(said, &[name]).unwrap_or(0);
    let tokens_in = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    Usage {
        tokens_in: tokens_in.into_iter().map(count).fold(0, u64::saturating_add),
        tokens_out: count("output_tokens"),
        money_micros: 0,
    }
}

/// Returns what it asks a person, with what can be chosen.
fn question(input: &Value) -> String {
    let asked = items(input, &["questions"]).iter().map(|asked| {
        let choices: Vec<&str> =
            items(asked, &["options"]).iter().filter_map(|option| text(option, &["label"])).collect();
        format!("{} ({})", text(asked, &["question"]).unwrap_or_default(), choices.join(" / "))
    });
    asked.collect::<Vec<_>>().join("; ")
}

fn message(words: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": words }] } })
}

fn allowed(request: &str, input: &Value) -> Value {
    response(request, &json!({ "behavior": "allow", "updatedInput": input }))
}

fn denied(request: &str, why: &str) -> Value {
    response(request, &json!({ "behavior": "deny", "message": why }))
}

fn response(request: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request, "response": response }
    })
}

fn refusal(request: &str) -> Value {
    let error = "lastword does not know this request";
    json!({
        "type": "control_response", "response": { "subtype": "error", "request_id": request, "error": error }
    })
}
