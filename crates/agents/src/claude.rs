//! Claude Code: JSON lines both ways, one process for many turns.
//!
//! A `result` ends a turn, not the process. Its `subtype` alone cannot be trusted: a failed model call is a `success` with `is_error`.
//! Each turn opens with an `init`, including turns that Claude starts by itself with a queued message. A turn that a message of ours starts
//! begins when the message is written: between that and its `init` Claude is not idle. Only the first one begins with its `init`, which
//! opens the session. Claude repeats each message of ours when it has read it (`isReplay`). Until then the message counts as unread, unless
//! it started the turn.

use std::collections::BTreeMap;

use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::provider::{Refused, Reset};
use lastword_core::question::Reply;
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use lastword_core::{InputNo, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::{self, Question};
use crate::inputs::Inputs;
use crate::permission::ToolUse;
use crate::protocol::{Goals, Outgoing, Protocol};
use crate::request;
use crate::start::Start;
use crate::tokens::Tokens;
use crate::turn;
use crate::value::{at, items, line, micros, number, text};

/// Open requests and running tools that are tracked. No agent at work has more.
const OPEN_MAX: usize = 64;

/// Longest name of a model that is kept, in bytes.
const MODEL_BYTES_MAX: usize = 200;

/// The state of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Claude {
    /// Claude's id of the conversation.
    session: Option<String>,
    inputs: Inputs,
    /// Messages written that Claude has not read yet.
    unread: u32,
    /// The message that started the turn was not replayed yet.
    #[serde(rename = "owed")]
    awaits_replay: bool,
    /// A turn is active.
    turn: bool,
    /// Its `init` is still to come.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    awaits_init: bool,
    /// An interrupt of this turn was sent.
    interrupted: bool,
    /// Tool uses that await permission, by request id.
    #[serde(rename = "asks")]
    tool_requests: BTreeMap<String, ToolRequest>,
    /// Questions asked so far.
    asked: u32,
    /// Ids of requests that are not supported and still need an answer.
    #[serde(rename = "strange")]
    unsupported: Vec<String>,
    /// Titles of the running tools, by id.
    tools: BTreeMap<String, String>,
    /// Background tasks, as Claude last reported.
    background: u32,
    /// The background work that was signalled last.
    #[serde(rename = "told")]
    signalled_background: u32,
    /// Text blocks of the model in this turn.
    messages: u32,
    /// The last line of the model in this turn, by its id in Claude's record.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// The tokens of this turn that were signalled so far, and their money by the table of prices.
    spent: Usage,
    /// The model of the message that is arriving.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// When the quota is restored, in seconds since 1970, as long as the provider rejects requests because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_until: Option<u64>,
    /// The cost of the process up to its last result, in millionths of a dollar.
    money_micros: u64,
}

/// A tool use that awaits permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ToolRequest {
    /// What the job's rules say.
    permission: Permission,
    /// The tool asks the user a question, so an answer is text and not a yes.
    is_question: bool,
    /// The tool's input. An answer that allows it must return it.
    input: Value,
    /// The id of its question, which no other ever has. Empty in a state that 0.1.0 stored: the id of the request then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
    /// It is denied because a person cannot be shown all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_too_large: bool,
}

impl Protocol for Claude {
    fn read_line(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        match (text(&event, &["type"]), text(&event, &["subtype"])) {
            (Some("system"), Some("init")) => self.turn_began(start, &event),
            (Some("system"), Some("background_tasks_changed")) => {
                self.background = u32::try_from(items(&event, &["tasks"]).len()).unwrap_or(u32::MAX);
                self.report_background()
            }
            (Some("system"), Some("session_state_changed")) => self.state_changed(&event),
            (Some("stream_event"), _) => self.streamed(start, &event),
            (Some("rate_limit_event"), _) => {
                self.quota_until = quota_until(&event);
                Vec::new()
            }
            (Some("assistant"), _) => self.assistant(&event),
            (Some("user"), _) => self.user(&event),
            (Some("control_request"), _) => self.control_request(start, &event),
            (Some("control_cancel_request"), _) => self.control_cancelled(&event),
            (Some("result"), subtype) => self.turn_ended(&event, subtype.unwrap_or_default()),
            _ => Vec::new(),
        }
    }

    fn line_written(&mut self, _: &Start, line: &[u8], input: InputNo) -> Option<Signal> {
        let event = serde_json::from_slice::<Value>(line).ok()?;
        self.inputs.wrote(input);
        match text(&event, &["type"])? {
            "user" => {
                self.inputs.prompted();
                self.unread = self.unread.saturating_add(1);
                if self.session.is_some() && !self.turn && self.unread == 1 {
                    self.awaits_init = true;
                    return Some(self.begin());
                }
            }
            // The only request of ours.
            "control_request" => self.interrupted = true,
            "control_response" => {
                let request = text(&event, &["response", "request_id"])?;
                self.tool_requests.remove(request);
                self.unsupported.retain(|unsupported| unsupported != request);
            }
            _ => {}
        }
        None
    }

    /// Requests that need no person come first: Claude waits for their answers. Then an interrupt, a person's answer, and messages.
    fn next_line(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing> {
        if let Some(request) = self.unsupported.first() {
            return Outgoing::bare(refusal(request));
        }
        let ruled =
            self.tool_requests.iter().find(|(_, tool_request)| tool_request.permission != Permission::Ask);
        if let Some((request, tool_request)) = ruled {
            return Outgoing::bare(match tool_request.permission {
                Permission::Allow => allowed(request, &tool_request.input),
                _ if tool_request.is_too_large => denied(request, ask::TOO_LARGE),
                _ => denied(request, "denied by the rules of this job"),
            });
        }
        if goals.interrupt && self.turn && !self.awaits_init && !self.interrupted {
            return Outgoing::bare(json!({
                "type": "control_request", "request_id": "interrupt", "request": { "subtype": "interrupt" }
            }));
        }
        let answer = self.inputs.answers(goals).find_map(|input| {
            let question = input.question.as_ref()?;
            let is_it = |(id, open): &(&String, &ToolRequest)| request::is_meant(question, &open.key, id);
            let (id, open) = self.tool_requests.iter().find(is_it)?;
            Outgoing::with_input(input.no, open.answer(id, input.reply.as_ref()?))
        });
        answer.or_else(|| {
            let (no, text) = match (goals.stop, self.turn) {
                (true, _) => None,
                (false, true) => self.inputs.steer(goals).map(|input| (input.no, input.text.as_str())),
                // Claude is about to start a turn with a message that it has not read yet.
                (false, false) if self.is_busy() => None,
                (false, false) => self.inputs.prompt(start, goals),
            }?;
            Outgoing::with_input(no, message(text))
        })
    }

    fn is_busy(&self) -> bool {
        self.turn || self.unread > 0
    }

    fn died(&mut self, error: &str) -> Vec<Signal> {
        let is_turn = std::mem::take(&mut self.turn);
        // Reported once: from now on it counts as opened.
        let has_session = self.session.replace(self.session.clone().unwrap_or_default()).is_some();
        turn::died(is_turn, has_session, error)
    }
}

impl Claude {
    /// Handles an `init`. One within a turn starts no other turn.
    fn turn_began(&mut self, start: &Start, event: &Value) -> Vec<Signal> {
        let mut signals = Vec::new();
        let session = text(event, &["session_id"]).map(str::to_owned);
        if !self.turn && (self.session.is_none() || self.session != session) {
            self.session.clone_from(&session);
            let resumed_from = start.resume.clone();
            signals.push(Signal::SessionStarted { reference: session, resumed_from });
            self.signalled_background = 0;
        }
        self.awaits_init = false;
        if !self.turn {
            signals.push(self.begin());
        }
        signals
    }

    /// Begins a turn, with the oldest message that was not read.
    fn begin(&mut self) -> Signal {
        self.turn = true;
        self.interrupted = false;
        self.awaits_replay = self.unread > 0;
        self.unread = self.unread.saturating_sub(1);
        (self.messages, self.last) = (0, None);
        self.spent = Usage::default();
        Signal::TurnStarted
    }

    /// Handles what Claude says about its work. `idle` comes after the `result` that ends the turn, so that a turn which is still active
    /// then has lost it.
    fn state_changed(&mut self, event: &Value) -> Vec<Signal> {
        match text(event, &["state"]) {
            Some("idle") if self.turn => vec![Signal::Inactive { failed: false }],
            Some("running" | "requires_action") if self.turn => vec![Signal::Active],
            _ => Vec::new(),
        }
    }

    /// Handles a part of a message of the model. Its start has the model's name, and the `message_delta` near its end its usage.
    fn streamed(&mut self, start: &Start, event: &Value) -> Vec<Signal> {
        match text(event, &["event", "type"]) {
            Some("message_start") => {
                let model = text(event, &["event", "message", "model"]);
                self.model = model.filter(|model| model.len() <= MODEL_BYTES_MAX).map(str::to_owned);
                Vec::new()
            }
            Some("message_delta") => match at(event, &["event", "usage"]).map(tokens) {
                Some(tokens) if tokens != Tokens::default() => self.message_cost(start, tokens),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Signals the usage of a message, with its money by the table of prices. The turn's result corrects that.
    fn message_cost(&mut self, start: &Start, tokens: Tokens) -> Vec<Signal> {
        let (spent, unpriced) = start.cost_of(self.model.as_deref(), tokens);
        self.spent.add(spent);
        [Signal::Spent(spent)].into_iter().chain(unpriced).collect()
    }

    /// Handles a message of the model: texts and tool uses.
    fn assistant(&mut self, event: &Value) -> Vec<Signal> {
        let mut signals = Vec::new();
        // Written by Claude Code itself: an error, which the result repeats.
        if text(event, &["message", "model"]) == Some("<synthetic>") {
            return signals;
        }
        self.last = mark(event).or(self.last.take());
        for block in items(event, &["message", "content"]) {
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

    /// Handles a replayed message of ours, or the results of tools.
    fn user(&mut self, event: &Value) -> Vec<Signal> {
        if event["isReplay"] == true {
            // The message that started the turn was counted as read at its `init`.
            if !std::mem::take(&mut self.awaits_replay) {
                self.unread = self.unread.saturating_sub(1);
            }
            return Vec::new();
        }
        let mut signals = Vec::new();
        for block in items(event, &["message", "content"]) {
            let Some(title) = text(block, &["tool_use_id"]).and_then(|id| self.tools.remove(id)) else {
                continue;
            };
            let title = if block["is_error"] == true { format!("{title} (failed)") } else { title };
            signals.extend([Signal::ToolEnded, Signal::ItemCompleted { title }]);
        }
        signals
    }

    /// Handles a request of Claude. It waits for the answer, so a request that is not supported gets one, too.
    fn control_request(&mut self, start: &Start, event: &Value) -> Vec<Signal> {
        let Some(request) = text(event, &["request_id"]) else { return Vec::new() };
        let body = &event["request"];
        if text(body, &["subtype"]) != Some("can_use_tool") || self.tool_requests.len() >= OPEN_MAX {
            if self.unsupported.len() < OPEN_MAX {
                self.unsupported.push(request.to_owned());
            }
            return Vec::new();
        }
        let tool = text(body, &["tool_name"]).unwrap_or("a tool");
        let is_question = tool == "AskUserQuestion";
        let tool_use = ToolUse::from_input(tool, &body["input"]);
        let permission = match is_question {
            // Only a person can answer it, so a rule that allows the tool does not apply.
            true if start.permissions.otherwise != Permission::Deny => Permission::Ask,
            _ => tool_use.permission(&start.permissions),
        };
        let question = match is_question {
            true => Question::words("", ask::parts(items(&body["input"], &["questions"]), "multiSelect")),
            false => {
                let mut question = Question::tool(tool_use.line(), tool, &body["input"]);
                question.ask.exact = ask::exact(tool, &body["input"], &[], None);
                question
            }
        };
        let is_too_large = permission == Permission::Ask && question.is_too_large();
        let permission = if is_too_large { Permission::Deny } else { permission };
        let (input, key) = (body["input"].clone(), request::key(request, &mut self.asked));
        let open = ToolRequest { permission, is_question, input, is_too_large, key: key.clone() };
        let replaced = self.tool_requests.insert(request.to_owned(), open);
        let replaced = replaced.filter(|replaced| replaced.permission == Permission::Ask);
        let mut signals: Vec<Signal> = replaced
            .map(|replaced| Signal::QuestionClosed { question: replaced.question(request).to_owned() })
            .into_iter()
            .collect();
        if permission == Permission::Ask {
            let Question { text, ask, edits } = question;
            signals.push(Signal::QuestionAsked { question: key, text, ask: Box::new(ask), edits });
        }
        signals
    }

    /// Handles a request that Claude withdrew.
    fn control_cancelled(&mut self, event: &Value) -> Vec<Signal> {
        let request = text(event, &["request_id"]).unwrap_or_default();
        match self.tool_requests.remove(request) {
            Some(open) => vec![Signal::QuestionClosed { question: open.question(request).to_owned() }],
            None => Vec::new(),
        }
    }

    /// Handles a `result`: signals what the turn spent beyond the signals of its messages, then its end.
    fn turn_ended(&mut self, event: &Value, subtype: &str) -> Vec<Signal> {
        let mut signals = Vec::new();
        let turn_usage = tokens(&event["usage"]).usage(None);
        // The cost of all turns of the process.
        let total = micros(event, &["total_cost_usd"]).unwrap_or(0);
        let known = turn_cost(event)
            .or_else(|| at(event, &["total_cost_usd"]).map(|_| total.saturating_sub(self.money_micros)));
        // Without a total of its own, the table's counts.
        let money = known.unwrap_or(self.spent.money_micros);
        let rest = Usage {
            tokens_in: turn_usage.tokens_in.saturating_sub(self.spent.tokens_in),
            tokens_out: turn_usage.tokens_out.saturating_sub(self.spent.tokens_out),
            money_micros: money.saturating_sub(self.spent.money_micros),
        };
        if rest != Usage::default() {
            signals.push(Signal::Spent(rest));
        }
        let overcounted = self.spent.money_micros.saturating_sub(money);
        if overcounted > 0 {
            signals.push(Signal::Overcounted { money_micros: overcounted });
        }
        self.money_micros = self.money_micros.max(total);
        let ending = ending(event, subtype);
        let denials = items(event, &["permission_denials"]).iter().map(|denial| {
            let tool = text(denial, &["tool_name"]).unwrap_or("a tool");
            line(&ToolUse::from_input(tool, &denial["tool_input"]).line())
        });
        let commit = Commit {
            messages: self.messages,
            transcript: 0,
            denials: denials.take(OPEN_MAX).collect(),
            usage: Usage { money_micros: money, ..turn_usage },
            resume: text(event, &["session_id"]).map(str::to_owned),
            mark: self.last.take(),
        };
        signals.extend(refused(event, self.quota_until));
        let has_error = !matches!(ending, TurnEnding::Completed | TurnEnding::Aborted);
        let error = has_error.then(|| error_text(event, subtype));
        signals.push(Signal::TurnEnded { ending, error, commit });
        (self.turn, self.awaits_init, self.interrupted, self.awaits_replay) = (false, false, false, false);
        self.tools.clear();
        self.tool_requests.clear();
        if ending == TurnEnding::Completed {
            signals.extend(self.report_background());
        }
        signals
    }

    /// Signals a change of background work. An unread message counts too: Claude will start a turn with it.
    fn report_background(&mut self) -> Vec<Signal> {
        let background = self.background.saturating_add(if self.turn { 0 } else { self.unread });
        if background == self.signalled_background {
            return Vec::new();
        }
        self.signalled_background = background;
        let state = if self.turn { SessionState::Running } else { SessionState::Ready };
        vec![Signal::SessionChanged { state, background }]
    }
}

impl ToolRequest {
    /// Returns the id of its question.
    fn question<'a>(&'a self, request: &'a str) -> &'a str {
        if self.key.is_empty() { request } else { &self.key }
    }

    /// Returns the response for a person's answer: words for each question of a list, or a yes or no.
    fn answer(&self, request: &str, reply: &Reply) -> Value {
        match reply {
            Reply::Words(words) if self.is_question => {
                let asked = items(&self.input, &["questions"]).iter();
                let answers = asked.zip(words).filter_map(|(asked, words)| {
                    Some((text(asked, &["question"])?.to_owned(), words.as_str()))
                });
                let mut input = self.input.clone();
                input["answers"] = answers.collect::<BTreeMap<String, &str>>().into_iter().collect();
                allowed(request, &input)
            }
            Reply::Allow if !self.is_question => allowed(request, &self.input),
            Reply::Deny(reason) if !reason.is_empty() => denied(request, reason),
            Reply::Words(words) => denied(request, &words.join("\n")),
            Reply::Allow | Reply::Deny(_) => denied(request, "denied by the user"),
        }
    }
}

/// Returns the id that a line of the model has in Claude's record. What a sub-agent's model says is recorded elsewhere.
pub(crate) fn mark(event: &Value) -> Option<String> {
    let id = text(event, &["uuid"]).filter(|id| id.len() <= turn::MARK_BYTES_MAX)?;
    text(event, &["parent_tool_use_id"]).is_none().then(|| id.to_owned())
}

/// Returns how a turn ended.
pub(crate) fn ending(event: &Value, subtype: &str) -> TurnEnding {
    let reason = text(event, &["terminal_reason"]).unwrap_or_default();
    let is_error = event["is_error"] == true;
    match subtype {
        _ if reason.starts_with("aborted") => TurnEnding::Aborted,
        _ if text(event, &["stop_reason"]) == Some("refusal") => TurnEnding::Refused,
        "success" if !is_error && matches!(reason, "" | "completed") => TurnEnding::Completed,
        "success" if matches!(number(event, &["api_error_status"]), Some(429 | 529)) => TurnEnding::Limited,
        "error_max_turns" | "error_max_budget_usd" => TurnEnding::Limited,
        _ => TurnEnding::Failed,
    }
}

/// Returns when the quota is restored, if requests are rejected until then.
pub(crate) fn quota_until(event: &Value) -> Option<u64> {
    let info = at(event, &["rate_limit_info"])?;
    let is_rejected = text(info, &["status"]) == Some("rejected");
    number(info, &["resetsAt"]).filter(|_| is_rejected)
}

/// Returns that the provider refused to answer, if that ended the turn. Without a time a request was too much for an API key.
pub(crate) fn refused(event: &Value, quota_until: Option<u64>) -> Option<Signal> {
    let (why, reset) = match (number(event, &["api_error_status"])?, quota_until) {
        (429, Some(at)) => (Refused::Quota, Reset::At(Timestamp(at.saturating_mul(1_000)))),
        (429, None) => (Refused::Quota, Reset::Unknown),
        (529, _) => (Refused::Overload, Reset::Unknown),
        _ => return None,
    };
    (event["is_error"] == true).then_some(Signal::ProviderRefused { why, reset })
}

/// Returns the cost of a turn, if it is listed by model. The total would include earlier processes of the conversation.
pub(crate) fn turn_cost(event: &Value) -> Option<u64> {
    let models = event.get("model_usage_since_last_result")?.as_object()?;
    let costs = models.values().filter_map(|model| micros(model, &["costUSD"]));
    Some(costs.fold(0, u64::saturating_add))
}

/// Returns the error of a turn, as Claude words it.
pub(crate) fn error_text(event: &Value, subtype: &str) -> String {
    let errors: Vec<&str> = items(event, &["errors"]).iter().filter_map(Value::as_str).collect();
    let texts = [text(event, &["result"]).unwrap_or_default().to_owned(), errors.join("; ")];
    let reason = text(event, &["terminal_reason"]).unwrap_or(subtype).to_owned();
    texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or(reason)
}

/// Returns the tokens of a message or turn. Claude counts cached ones apart.
fn tokens(usage: &Value) -> Tokens {
    let count = |name| number(usage, &[name]).unwrap_or(0);
    let (cached, stored) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let read = count("input_tokens").saturating_add(cached).saturating_add(stored);
    Tokens { read, cached, stored, written: count("output_tokens") }
}

/// Returns a message of the user.
fn message(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": text }] } })
}

fn allowed(request: &str, input: &Value) -> Value {
    response(request, &json!({ "behavior": "allow", "updatedInput": input }))
}

fn denied(request: &str, why: &str) -> Value {
    response(request, &json!({ "behavior": "deny", "message": why }))
}

/// Returns the response to a request that was handled, whether it was allowed or denied.
fn response(request: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request, "response": response }
    })
}

/// Returns the response to a request that is not supported.
fn refusal(request: &str) -> Value {
    let error = "lastword does not support this request";
    json!({
        "type": "control_response", "response": { "subtype": "error", "request_id": request, "error": error }
    })
}
