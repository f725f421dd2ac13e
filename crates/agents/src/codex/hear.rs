//! What a line of Codex means.

use lastword_core::event::{SessionState, TurnEnding};
use lastword_core::report::Signal;
use serde_json::Value;

use super::{Ask, Clean, Codex, STEERS_MAX, Stage};
use crate::Start;
use crate::rpc::words;
use crate::tokens::Tokens;
use crate::value::{at, items, line, number, text};

/// Bytes of the longest name of a thread or a turn. They are UUIDs.
const NAME_BYTES_MAX: usize = 200;

/// Items that are tools: the agent waits for them, not for its model.
const TOOLS: [&str; 8] = [
    "commandExecution",
    "fileChange",
    "mcpToolCall",
    "dynamicToolCall",
    "collabAgentToolCall",
    "webSearch",
    "imageGeneration",
    "sleep",
];

/// What Codex says when it, or its model, has reached a limit.
const LIMITS: [&str; 5] = [
    "usageLimitExceeded",
    "rateLimitExceeded",
    "sessionBudgetExceeded",
    "contextWindowExceeded",
    "flexUnavailable",
];

/// What it says when the model would not.
const REFUSALS: [&str; 2] = ["cyberPolicy", "misalignmentPolicyViolation"];

impl Codex {
    /// Takes an answer to a request of ours.
    pub(super) fn replied(&mut self, start: &Start, id: &Value, result: Result<Value, Value>) -> Vec<Signal> {
        match (self.asked.take(id), result) {
            (None, _) => Vec::new(),
            (Some(Ask::Initialize), Ok(_)) => {
                self.stage = Stage::Welcome;
                Vec::new()
            }
            (Some(Ask::Thread), Ok(result)) => self.opened(start, &result),
            (Some(Ask::Initialize | Ask::Thread), Err(error)) => self.broke(words(&error)),
            // It is named here, and cannot be interrupted before it says that it has started.
            (Some(Ask::Turn), Ok(_)) => Vec::new(),
            (Some(Ask::Turn), Err(error)) => self.ended(TurnEnding::Failed, Some(words(&error))),
            (Some(Ask::Steer(_)), Ok(_)) => Vec::new(),
            (Some(Ask::Steer(said)), Err(error)) => self.late(said, &error),
            (Some(Ask::Interrupt), Ok(_)) => Vec::new(),
            // There is nothing to interrupt; what is left behind is cleaned up all the same.
            (Some(Ask::Interrupt), Err(_)) => {
                self.clean = Clean::Due;
                Vec::new()
            }
            (Some(Ask::Clean), _) => {
                self.clean = Clean::Done;
                Vec::new()
            }
        }
    }

    /// Takes a notice.
    pub(super) fn noticed(&mut self, start: &Start, method: &str, params: &Value) -> Vec<Signal> {
        // Agents of the agent have threads of their own: what they do is work, but their turns are not the turns of this one.
        let own = text(params, &["threadId"]).is_none_or(|thread| self.thread.as_deref() == Some(thread));
        match method {
            "item/started" => {
                self.changes.note(start, &params["item"]);
                let tool = text(params, &["item", "type"]).is_some_and(|kind| TOOLS.contains(&kind));
                if tool { vec![Signal::ToolStarted] } else { Vec::new() }
            }
            "item/completed" => self.completed(own, &params["item"]),
            "thread/tokenUsage/updated" => self.counted(start, own, params),
            "serverRequest/resolved" => self.requests.close(&params["requestId"]).into_iter().collect(),
            "turn/started" if own => {
                self.turn_id = name(params, "turn").or(self.turn_id.take());
                self.turn.begin().into_iter().collect()
            }
            "turn/completed" if own => {
                let (ended, known) = (text(params, &["turn", "id"]), self.turn_id.as_deref());
                if ended.zip(known).is_some_and(|(ended, known)| ended != known) {
                    return Vec::new();
                }
                let (ending, error) = ending(&params["turn"]);
                self.ended(ending, error)
            }
            "thread/closed" if own && self.thread.is_some() => {
                self.stage = Stage::Broken;
                self.turn.end(TurnEnding::AgentExit, None, None);
                self.clean = Clean::Done;
                vec![Signal::SessionChanged { state: SessionState::Stopped, background: 0 }]
            }
            _ => Vec::new(),
        }
    }

    fn opened(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let Some(thread) = name(result, "thread") else {
            return self.broke("codex opened a thread without a name".to_owned());
        };
        self.stage = Stage::Open;
        (self.thread, self.used) = (Some(thread), None);
        vec![Signal::SessionStarted { reference: self.thread.clone(), resumed_from: start.resume.clone() }]
    }

    /// Takes note that there will be no session.
    fn broke(&mut self, error: String) -> Vec<Signal> {
        self.stage = Stage::Broken;
        self.turn.without_session(error)
    }

    fn ended(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        self.requests.clear();
        if self.clean == Clean::Later {
            self.clean = Clean::Due;
        }
        self.turn.end(ending, error, self.thread.as_deref()).into_iter().collect()
    }

    /// Takes note of an input that the turn did not take in: it becomes a prompt, or it is said that it is lost.
    fn late(&mut self, said: Option<String>, error: &Value) -> Vec<Signal> {
        match said {
            Some(said) if self.late.len() < STEERS_MAX => {
                self.late.push(said);
                Vec::new()
            }
            _ => {
                let title = line(&format!("an input was not taken into the turn: {}", words(error)));
                vec![Signal::ItemCompleted { title }]
            }
        }
    }

    fn completed(&mut self, own: bool, item: &Value) -> Vec<Signal> {
        let kind = text(item, &["type"]).unwrap_or_default();
        if own && matches!(kind, "userMessage" | "agentMessage") {
            self.turn.message();
        }
        let tool = TOOLS.contains(&kind).then_some(Signal::ToolEnded);
        let title = title(kind, item).map(|title| Signal::ItemCompleted { title: line(&title) });
        tool.into_iter().chain(title).collect()
    }

    fn counted(&mut self, start: &Start, own: bool, params: &Value) -> Vec<Signal> {
        let usage = &params["tokenUsage"];
        let (total, last) = (tokens(&usage["total"]), tokens(&usage["last"]));
        if !own {
            // A thread within: its last request is new, whatever it did before.
            return self.turn.spent(last.usage(start.prices)).into_iter().collect();
        }
        let present = text(params, &["turnId"]).is_some_and(|turn| self.turn_id.as_deref() == Some(turn));
        let more = match self.used.replace(total) {
            Some(before) => total.since(before),
            None if start.resume.is_none() => total,
            None if present => last,
            // The account of a turn of former times is where this conversation goes on from.
            None => return Vec::new(),
        };
        self.turn.spent(more.usage(start.prices)).into_iter().collect()
    }
}

/// Returns the name of a thread or a turn, if it is one that can be kept.
fn name(params: &Value, what: &str) -> Option<String> {
    let name = text(params, &[what, "id"])?;
    (name.len() <= NAME_BYTES_MAX).then(|| name.to_owned())
}

fn tokens(account: &Value) -> Tokens {
    let count = |name: &str| number(account, &[name]).unwrap_or(0);
    Tokens { read: count("inputTokens"), cached: count("cachedInputTokens"), written: count("outputTokens") }
}

fn ending(turn: &Value) -> (TurnEnding, Option<String>) {
    let error = text(turn, &["error", "message"]).map(str::to_owned);
    let ending = match text(turn, &["status"]) {
        Some("completed") => TurnEnding::Completed,
        Some("interrupted") => TurnEnding::Aborted,
        _ => failure(&turn["error"]["codexErrorInfo"]),
    };
    (ending, error.filter(|_| ending != TurnEnding::Completed))
}

fn failure(info: &Value) -> TurnEnding {
    // Some are words, some carry the status that the model's server gave.
    let status = info.as_object().and_then(|kinds| kinds.values().next());
    let status = status.and_then(|kind| number(kind, &["httpStatusCode"]));
    match info.as_str() {
        Some(word) if LIMITS.contains(&word) => TurnEnding::Limited,
        Some(word) if REFUSALS.contains(&word) => TurnEnding::Refused,
        _ if status == Some(429) => TurnEnding::Limited,
        _ => TurnEnding::Failed,
    }
}

/// Returns one line about an item that is done; none for what people did not ask to see.
fn title(kind: &str, item: &Value) -> Option<String> {
    let outcome = |what: String| {
        let status = text(item, &["status"]).unwrap_or("completed");
        match at(item, &["exitCode"]).and_then(Value::as_i64) {
            Some(code) if code != 0 => format!("{what}: exit {code}"),
            _ if status != "completed" => format!("{what}: {status}"),
            _ => what,
        }
    };
    match kind {
        "agentMessage" => text(item, &["text"]).filter(|text| !text.trim().is_empty()).map(str::to_owned),
        "commandExecution" => {
            text(item, &["command"]).map(super::approval::command).map(|command| line(&command)).map(outcome)
        }
        "fileChange" => {
            let paths: Vec<&str> =
                items(item, &["changes"]).iter().filter_map(|change| text(change, &["path"])).collect();
            Some(outcome(line(&format!("fileChange: {}", paths.join(", ")))))
        }
        "mcpToolCall" | "dynamicToolCall" | "collabAgentToolCall" => {
            text(item, &["tool"]).map(line).map(outcome)
        }
        "webSearch" => text(item, &["query"]).map(|query| format!("webSearch: {query}")),
        _ => None,
    }
}
