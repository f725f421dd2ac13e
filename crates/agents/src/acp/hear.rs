//! The meaning of the lines that an ACP agent writes.

use lastword_core::event::TurnEnding;
use lastword_core::provider::{Refused, Reset};
use lastword_core::question::{Change, Edit};
use lastword_core::report::Signal;
use serde_json::{Value, json};

use super::announced::{ID_BYTES_MAX, TOOLS_MAX, is_said};
use super::replay::{self, Verdict};
use super::{Account, Acp, Call, PartialMessage, Stage};
use crate::ask::{self, Question};
use crate::permission::{self, ToolUse};
use crate::request::{Reply, Request};
use crate::rpc::error_text;
use crate::start::Start;
use crate::turn::{MARK_BYTES_MAX, Work};
use crate::value::{at, brief, items, line, number, text};

/// Characters kept of a message until it is complete.
const HEAD_CHARS_MAX: usize = 240;

/// The error code of an agent that is not logged in.
const AUTH_REQUIRED: i64 = -32000;

/// Prefixes of messages with which agents report a failure of their model. The first one's agent reports usage right after each message.
const MODEL_FAILED: [&str; 3] = ["Ran into this error: ", "Error: ", "Network error: "];

impl Acp {
    /// Handles the reply to a request of ours.
    pub(super) fn replied(&mut self, start: &Start, id: &Value, result: Result<Value, Value>) -> Vec<Signal> {
        match (self.calls.take(id), result) {
            (None, _) => Vec::new(),
            (Some(Call::Initialize), Ok(result)) => self.greeted(start, &result),
            (Some(Call::Session), Ok(result)) => self.opened(start, &result),
            (Some(Call::Initialize | Call::Session), Err(error)) => self.broke(failure(&error)),
            (Some(Call::Rewind), Ok(_)) => self.ready(start),
            (Some(Call::Rewind), Err(error)) => self.stays(&failure(&error)),
            (Some(Call::Model), Ok(result)) => {
                self.note_options(&result);
                self.tune(start)
            }
            (Some(Call::Model), Err(error)) => {
                let model = start.model.as_deref().unwrap_or_default();
                self.broke(format!("it refused the model `{}`: {}", line(model), failure(&error)))
            }
            (Some(Call::Effort), Ok(result)) => self.tuned(start, &result),
            (Some(Call::Effort), Err(error)) => {
                let effort = start.effort.as_deref().unwrap_or_default();
                self.broke(format!("it refused the effort `{}`: {}", line(effort), failure(&error)))
            }
            (Some(Call::Prompt), Ok(result)) => self.ended(start, &result),
            (Some(Call::Prompt), Err(error)) => {
                let mut signals = self.end_message();
                let refused = refused(&error);
                let ending = if refused.is_some() { TurnEnding::Limited } else { TurnEnding::Failed };
                signals.extend(refused);
                signals.extend(self.turn.end(ending, Some(failure(&error)), (self.session.as_deref(), None)));
                self.requests.clear();
                signals
            }
        }
    }

    fn greeted(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        self.stage = Stage::Ready;
        self.account = Account::of(text(result, &["agentInfo", "name"]).unwrap_or_default());
        self.loads = at(result, &["agentCapabilities", "loadSession"]) == Some(&Value::Bool(true));
        if start.resume.is_some() && !self.loads {
            return self.broke("this agent cannot resume a conversation".to_owned());
        }
        Vec::new()
    }

    fn opened(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let session = start.resume.as_deref().or(text(result, &["sessionId"]));
        let Some(session) = session.filter(|session| session.len() <= ID_BYTES_MAX) else {
            return self.broke("the agent opened a session without an id".to_owned());
        };
        self.session = Some(session.to_owned());
        self.note_options(result);
        let is_model = |option: &Value| text(option, &["id"]) == Some("model");
        self.model_is_option = items(result, &["configOptions"]).iter().any(is_model);
        if start.model.is_some() && !self.model_is_option && result["models"].is_null() {
            return self.broke("it offers no choice of models; use its own settings".to_owned());
        }
        match start.forget_after.as_ref().map(|_| self.replay.verdict()) {
            None | Some(Verdict::Clean) => self.ready(start),
            Some(Verdict::Stays(why)) => self.stays(why),
            Some(Verdict::Cut) => {
                self.stage = Stage::Rewinding;
                Vec::new()
            }
        }
    }

    /// Gives up on a session that holds what is to be forgotten.
    fn stays(&mut self, why: &str) -> Vec<Signal> {
        self.broke(format!(
            "it cannot forget the turn that did not complete: {why}; `lastword resume --keep-unfinished` goes on with it"
        ))
    }

    /// Begins the session: nothing is left to forget.
    fn ready(&mut self, start: &Start) -> Vec<Signal> {
        let started =
            Signal::SessionStarted { reference: self.session.clone(), resumed_from: start.resume.clone() };
        let then = match start.model {
            Some(_) => {
                self.stage = Stage::Choosing;
                Vec::new()
            }
            None => self.tune(start),
        };
        std::iter::once(started).chain(then).collect()
    }

    /// Records which option is the effort. Another model may have none.
    fn note_options(&mut self, result: &Value) {
        if result["configOptions"].is_array() {
            let option = effort_option(result).and_then(|option| text(option, &["id"]));
            self.effort_option = option.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned);
        }
    }

    /// Goes on to the choice of the effort, if there is one.
    fn tune(&mut self, start: &Start) -> Vec<Signal> {
        if start.effort.is_some() && self.effort_option.is_none() {
            return self
                .broke("it offers no choice of effort with this model; use its own settings".to_owned());
        }
        self.stage = if start.effort.is_some() { Stage::Tuning } else { Stage::Open };
        Vec::new()
    }

    /// Handles the reply to the choice of an effort. Some agents accept one that their model does not have, and use another.
    fn tuned(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let (option, effort) = (effort_option(result), start.effort.as_deref());
        let used = option.and_then(|option| text(option, &["currentValue"]));
        if let Some(option) = option.filter(|_| used != effort) {
            let values = items(option, &["options"]).iter().filter_map(|value| text(value, &["value"]));
            let values = line(&values.collect::<Vec<_>>().join(", "));
            let effort = line(effort.unwrap_or_default());
            return self.broke(format!("it has no effort `{effort}` with this model; it offers {values}"));
        }
        self.stage = Stage::Open;
        Vec::new()
    }

    /// Gives up on the handshake.
    fn broke(&mut self, error: String) -> Vec<Signal> {
        self.stage = Stage::Broken;
        self.turn.without_session(error)
    }

    fn ended(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let usage = self.account.turn(start, result);
        let last = self.message.as_ref().map(|message| message.last.clone()).unwrap_or_default();
        let mut signals = self.end_message();
        signals.extend(self.turn.spent(usage));
        if self.account.is_unpriced(start) {
            signals.push(Signal::Unpriced { model: "the one of its settings".to_owned() });
        }
        let (ending, error) = match text(result, &["stopReason"]) {
            Some("end_turn") => match self.hidden_error(&last) {
                Some(error) => (TurnEnding::Failed, Some(error)),
                None => (TurnEnding::Completed, None),
            },
            Some("cancelled") => (TurnEnding::Aborted, None),
            Some("refusal") => (TurnEnding::Refused, None),
            Some(limit @ ("max_tokens" | "max_turn_requests")) => {
                (TurnEnding::Limited, Some(limit.replace('_', " ")))
            }
            other => (
                TurnEnding::Failed,
                Some(format!("the turn ended with stop reason `{}`", line(other.unwrap_or("none")))),
            ),
        };
        signals.extend(self.turn.end(ending, error, (self.session.as_deref(), self.last.as_deref())));
        self.requests.clear();
        signals
    }

    /// Returns the error of a turn that claims to have ended well, if it certainly failed.
    fn hidden_error(&self, last: &str) -> Option<String> {
        let own = MODEL_FAILED.iter().any(|prefix| last.starts_with(prefix)) && self.account.spent_nothing()
            || last.starts_with(MODEL_FAILED[0]) && self.account.last_cost_nothing();
        (own || self.failed)
            .then(|| if last.is_empty() { "its model failed".to_owned() } else { last.to_owned() })
    }

    /// Handles a session update.
    pub(super) fn updated(&mut self, start: &Start, params: &Value) -> Vec<Signal> {
        let update = &params["update"];
        let kind = text(update, &["sessionUpdate"]).unwrap_or_default();
        if kind == "usage_update" {
            // Outside turns too: a resumed session reports its earlier cost.
            let usage = self.account.costs(start, update);
            return self.turn.spent(usage).into_iter().collect();
        }
        // Updates before the session is open replay its history.
        if self.stage != Stage::Open {
            if let Some(mark) = start.forget_after.as_deref().filter(|_| self.stage == Stage::Opening) {
                self.replay.note(update, mark);
            }
            return Vec::new();
        }
        if let Some(name) = replay::name(update).filter(|name| name.len() <= MARK_BYTES_MAX) {
            self.last = Some(name.to_owned());
        }
        match kind {
            "agent_message_chunk" => self.chunk(start, update),
            "tool_call" | "tool_call_update" => self.tool(update),
            "session_info_update" => self.informed(update),
            _ => Vec::new(),
        }
    }

    fn chunk(&mut self, start: &Start, update: &Value) -> Vec<Signal> {
        let usage = at(update, &["_meta", "usage"]).map(|account| self.account.request(start, account));
        let mut signals: Vec<Signal> = usage.and_then(|usage| self.turn.spent(usage)).into_iter().collect();
        let part = text(update, &["content", "text"]).unwrap_or_default();
        if part.is_empty() {
            return signals;
        }
        let id = text(update, &["messageId"]).filter(|id| id.len() <= ID_BYTES_MAX);
        if self.message.as_ref().is_some_and(|message| message.id.as_deref() != id) {
            signals.extend(self.end_message());
        }
        if self.message.is_none() {
            self.account.message();
        }
        let message = self
            .message
            .get_or_insert_with(|| PartialMessage { id: id.map(str::to_owned), ..PartialMessage::default() });
        message.last = line(part);
        if !message.head.contains('\n') {
            let head = format!("{}{part}", message.head);
            message.head = head.trim_start().chars().take(HEAD_CHARS_MAX).collect();
        }
        signals
    }

    /// Ends the current message, if there is one.
    fn end_message(&mut self) -> Vec<Signal> {
        let Some(message) = self.message.take() else { return Vec::new() };
        self.turn.message();
        let title = line(&message.head);
        if title.is_empty() { Vec::new() } else { vec![Signal::ItemCompleted { title }] }
    }

    fn tool(&mut self, update: &Value) -> Vec<Signal> {
        let Some(tool) = text(update, &["toolCallId"]).filter(|tool| tool.len() <= ID_BYTES_MAX) else {
            return Vec::new();
        };
        let mut signals = self.end_message();
        let status = text(update, &["status"]).unwrap_or("in_progress");
        self.announced.note(tool, update);
        let known = self.tools.contains_key(tool);
        let over = matches!(status, "completed" | "failed");
        let title = text(update, &["title"]).map(brief);
        if !known && (self.tools.len() < TOOLS_MAX || over) {
            self.tools.insert(tool.to_owned(), String::new());
            signals.push(Signal::ToolStarted);
        }
        if let (Some(kept), Some(title)) = (self.tools.get_mut(tool), title) {
            *kept = title;
        }
        if let Some(title) = self.tools.get(tool).filter(|_| over).cloned() {
            self.tools.remove(tool);
            self.announced.forget(tool);
            signals.push(Signal::ToolEnded);
            signals.push(Signal::ItemCompleted { title: line(&outcome(&title, status, update)) });
        }
        signals
    }

    /// Handles the model status that `codex-acp` reports apart from its messages.
    fn informed(&mut self, update: &Value) -> Vec<Signal> {
        match text(update, &["_meta", "codex", "threadStatus", "type"]) {
            Some("systemError") => self.failed = true,
            Some("active") => self.failed = false,
            _ => {}
        }
        // goose names the run that it works on, and no run once it works on none.
        let work = match at(update, &["_meta", "goose", "activeRunId"]) {
            Some(Value::Null) => Work::Idle,
            Some(_) => Work::Busy,
            None => return Vec::new(),
        };
        self.turn.works(work).into_iter().collect()
    }

    /// Handles a request of the agent. An unsupported one is refused, so that the agent does not wait for it.
    pub(super) fn agent_request(
        &mut self,
        start: &Start,
        id: Value,
        method: &str,
        params: &Value,
    ) -> Vec<Signal> {
        if method != "session/request_permission" {
            self.requests.refuse(id);
            return Vec::new();
        }
        let call = &params["toolCall"];
        let announced = self.announced.of(call);
        let is_whole = is_said(&call["rawInput"]) || !items(call, &["content"]).is_empty();
        let input = if is_whole { &call["rawInput"] } else { &announced.input };
        let kind = text(call, &["kind"]).unwrap_or("other");
        let name = announced.name.as_deref();
        let by_title = ToolUse { tool: kind, what: text(call, &["title"]).unwrap_or_default() };
        let uses = uses(kind, call, input);
        let by_kind = uses.first().cloned().unwrap_or_else(|| by_title.clone());
        let tool_use = ToolUse { tool: name.unwrap_or(by_kind.tool), ..by_kind.clone() };
        // Rules of 0.1.0 have the title of a change.
        let title = (!is_said(input)).then_some(&by_title);
        let all: Vec<Vec<ToolUse<'_>>> = match uses.is_empty() {
            true => vec![names(&by_title, name, kind, None)],
            false => uses.iter().map(|one| names(one, name, kind, title)).collect(),
        };
        let permission = permission::of(&all, &start.permissions);
        let request = Request::permission(id, &tool_use.line(), reply(params), permission);
        let mut question = question(&tool_use, params, input);
        let beside = (!is_whole && is_said(input)).then(|| input.to_string());
        question.ask.exact = ask::exact(kind, call, &["toolCallId", "status", "_meta"], beside.as_deref());
        let asked = self.requests.open(request, question, &mut self.questions);
        // Some agents do not mention the tool again before it has ended.
        let begun = self.begun(call);
        if self.turn.is_interrupted() {
            // The turn was interrupted: do not ask a person any more.
            self.requests.cancel();
            return Vec::new();
        }
        asked.into_iter().chain(begun).collect()
    }

    /// Records a tool that was not seen before.
    fn begun(&mut self, call: &Value) -> Option<Signal> {
        let tool = text(call, &["toolCallId"]).filter(|tool| tool.len() <= ID_BYTES_MAX)?;
        if self.tools.contains_key(tool) || self.tools.len() >= TOOLS_MAX {
            return None;
        }
        let title = text(call, &["title"]).map(brief).unwrap_or_default();
        self.tools.insert(tool.to_owned(), title);
        Some(Signal::ToolStarted)
    }
}

/// Returns that the provider refused to answer, by the error of gemini: it names a pause, or none for the quota of a day.
fn refused(error: &Value) -> Option<Signal> {
    let message = text(error, &["message"]).unwrap_or_default();
    if number(error, &["code"]) != Some(429) {
        return None;
    }
    let pause = message.split_once("retry after ").and_then(|(_, rest)| rest.split_once('s'));
    let seconds = pause.and_then(|(seconds, _)| seconds.trim().parse::<f64>().ok());
    let reset = seconds.filter(|seconds| *seconds >= 0.0);
    let reset = reset.map_or(Reset::Unknown, |seconds| Reset::After((seconds * 1_000.0).ceil() as u64));
    Some(Signal::ProviderRefused { why: Refused::Quota, reset })
}

/// Returns the names that a rule may have for one use: that of the tool, its kind, its title.
fn names<'a>(
    one: &ToolUse<'a>,
    name: Option<&'a str>,
    kind: &'a str,
    title: Option<&ToolUse<'a>>,
) -> Vec<ToolUse<'a>> {
    let as_tool = |tool| ToolUse { tool, what: one.what };
    let kind = (one.tool != kind).then(|| as_tool(kind));
    name.map(as_tool).into_iter().chain([one.clone()]).chain(kind).chain(title.cloned()).collect()
}

/// Fields of a command, and what may stand beside it without making it another tool.
const COMMAND: [&str; 2] = ["command", "cmd"];
const BESIDE_A_COMMAND: [&str; 7] =
    ["description", "timeout", "timeout_ms", "timeout_secs", "cwd", "workdir", "background"];

/// Returns everything that a request is about: its commands if it is one that executes, otherwise every file that it names or changes.
fn uses<'a>(kind: &'a str, call: &'a Value, input: &'a Value) -> Vec<ToolUse<'a>> {
    let commands = || COMMAND.iter().filter_map(|name| text(input, &[name]));
    let is_plain = input.as_object().is_some_and(|input| {
        input.keys().all(|key| COMMAND.contains(&key.as_str()) || BESIDE_A_COMMAND.contains(&key.as_str()))
    });
    // Some agents say `other` of everything.
    if kind == "execute" || kind == "other" && is_plain {
        let commands: Vec<_> = commands().map(|command| ToolUse { tool: "execute", what: command }).collect();
        if !commands.is_empty() {
            return commands;
        }
    }
    let named = ["file_path", "filePath", "path", "abs_path"].iter().filter_map(|name| text(input, &[name]));
    let changes = items(call, &["content"]).iter().filter(|block| block["newText"].is_string());
    let changed = changes.filter_map(|block| text(block, &["path"]));
    let mut files: Vec<&str> = named.chain(changed).collect();
    files.dedup();
    match files.is_empty() {
        true => commands().map(|command| ToolUse { tool: kind, what: command }).collect(),
        false => files.into_iter().map(|file| ToolUse { tool: kind, what: file }).collect(),
    }
}

/// Returns the option that is the effort of the model.
fn effort_option(result: &Value) -> Option<&Value> {
    let is_effort = |option: &&Value| text(option, &["category"]) == Some("thought_level");
    items(result, &["configOptions"]).iter().find(is_effort)
}

/// Returns all that a permission request says. Agents put it into different places.
fn question(tool_use: &ToolUse<'_>, params: &Value, input: &Value) -> Question {
    let call = &params["toolCall"];
    let kind = text(call, &["kind"]).unwrap_or("other");
    let title = text(call, &["title"]).unwrap_or_default();
    // The name of a tool says more than its kind.
    let tool = if tool_use.tool == "execute" { kind } else { tool_use.tool };
    let line = tool_use.line();
    // A whole file each, with its new text; and whatever else stands beside it.
    let (mut edits, mut others) = (Vec::new(), Vec::new());
    for block in items(call, &["content"]) {
        match (text(block, &["path"]), text(block, &["newText"]), text(block, &["content", "text"])) {
            (Some(path), Some(new), None) => {
                edits.push(Edit { path: path.to_owned(), change: Change::Write(new.to_owned()) });
            }
            (None, None, Some(text)) => others.push(text.to_owned()),
            _ => others.push(block.to_string()),
        }
    }
    let has_blocks = !edits.is_empty() || !others.is_empty();
    let mut question = match edits.is_empty() {
        false => {
            let more = ask::beside_a_change(input);
            others.extend(more.into_iter().filter(|more| !more.is_empty()));
            Question::change(line, tool, edits)
        }
        true if is_said(input) => Question::tool(line, tool, input),
        true => Question::request(line, tool, title),
    };
    if !others.is_empty() {
        question.more(&others.join("\n\n"));
    }
    if kind != "execute" && !has_blocks && !is_said(input) {
        question.ask.lacks = "its arguments: this agent names them only once it is allowed".to_owned();
    }
    let offers =
        |kind: &str| items(params, &["options"]).iter().any(|option| text(option, &["kind"]) == Some(kind));
    if offers("allow_always") && !offers("allow_once") {
        question.ask.lacks = "a way to allow it once: this agent takes a yes for always".to_owned();
    }
    question
}

/// Returns the answers to a permission request, chosen by the kinds of its options: option ids differ between agents.
fn reply(params: &Value) -> Reply {
    let cancel = json!({ "outcome": { "outcome": "cancelled" } });
    let choose = |kinds: [&str; 2]| {
        let option = kinds.iter().find_map(|kind| {
            let fits = |option: &&Value| text(option, &["kind"]) == Some(*kind);
            items(params, &["options"]).iter().find(fits)
        });
        let id = option.and_then(|option| text(option, &["optionId"])).filter(|id| id.len() <= ID_BYTES_MAX);
        id.map_or_else(
            || cancel.clone(),
            |id| json!({ "outcome": { "outcome": "selected", "optionId": id } }),
        )
    };
    let allow = choose(["allow_once", "allow_always"]);
    let deny = choose(["reject_once", "reject_always"]);
    Reply::Choice { allow, deny, cancel }
}

fn failure(error: &Value) -> String {
    let text = error_text(error);
    match error["code"].as_i64() {
        Some(AUTH_REQUIRED) => format!("the agent is not logged in: {text}"),
        _ => text,
    }
}

fn outcome(title: &str, status: &str, update: &Value) -> String {
    let paths: [&[&str]; 3] = [
        &["rawOutput", "exit_code"],
        &["rawOutput", "metadata", "exit"],
        &["_meta", "terminal_exit", "exit_code"],
    ];
    let code = paths.iter().find_map(|path| at(update, path).and_then(Value::as_i64));
    match code {
        Some(code) if code != 0 => format!("{title}: exit {code}"),
        _ if status != "completed" => format!("{title}: {status}"),
        _ => title.to_owned(),
    }
}
