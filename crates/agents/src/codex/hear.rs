//! The meaning of the lines that Codex writes.

use lastword_core::Timestamp;
use lastword_core::event::{SessionState, TurnEnding};
use lastword_core::provider::{Refused, Reset};
use lastword_core::report::Signal;
use serde_json::Value;

use super::{Call, Clean, Codex, STEERS_MAX, Stage};
use crate::rpc::error_text;
use crate::start::Start;
use crate::tokens::Tokens;
use crate::turn::Work;
use crate::value::{at, items, line, number, text};

/// Longest id of a thread or turn that is accepted, in bytes. They are UUIDs.
const ID_BYTES_MAX: usize = 200;

/// Item types that are tools: while one runs, the agent does not wait for its model.
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

/// Error kinds that mean a limit of Codex or its model was reached.
const LIMITS: [&str; 6] = [
    "usageLimitExceeded",
    "rateLimitExceeded",
    "sessionBudgetExceeded",
    "contextWindowExceeded",
    "flexUnavailable",
    "serverOverloaded",
];

/// Error kinds that mean the model refused.
const REFUSALS: [&str; 2] = ["cyberPolicy", "misalignmentPolicyViolation"];

impl Codex {
    /// Handles the reply to a request of ours.
    pub(super) fn replied(&mut self, start: &Start, id: &Value, result: Result<Value, Value>) -> Vec<Signal> {
        match (self.calls.take(id), result) {
            (None, _) => Vec::new(),
            (Some(Call::Initialize), Ok(_)) => {
                self.stage = Stage::Welcome;
                Vec::new()
            }
            (Some(Call::Thread), Ok(result)) => self.opened(start, &result),
            (Some(Call::Initialize | Call::Thread), Err(error)) => self.broke(match self.stage {
                Stage::Copied => format!("it could not forget what did not complete: {}", error_text(&error)),
                _ => error_text(&error),
            }),
            (Some(Call::List), Ok(result)) => self.listed(start, &result),
            (Some(Call::Revert), Ok(_)) => self.ready(start),
            // Threads of earlier versions cannot be reverted, but copied.
            (Some(Call::List | Call::Revert), Err(_)) => {
                self.stage = Stage::Copying;
                Vec::new()
            }
            // The turn's id is taken from `turn/started`: before that, it cannot be interrupted.
            (Some(Call::Turn), Ok(_)) => Vec::new(),
            (Some(Call::Turn), Err(error)) => self.ended(TurnEnding::Failed, Some(error_text(&error))),
            (Some(Call::Steer(_)), Ok(_)) => Vec::new(),
            (Some(Call::Steer(input_text)), Err(error)) => self.late(input_text, &error),
            (Some(Call::Interrupt), Ok(_)) => Vec::new(),
            // Nothing to interrupt, but there may still be terminals to clean up.
            (Some(Call::Interrupt), Err(_)) => {
                self.clean = Clean::Due;
                Vec::new()
            }
            (Some(Call::Clean), _) => {
                self.clean = Clean::Done;
                Vec::new()
            }
        }
    }

    /// Handles a notification.
    pub(super) fn noticed(&mut self, start: &Start, method: &str, params: &Value) -> Vec<Signal> {
        // Sub-agents have threads of their own: their items count as work, their turns do not count.
        let own = text(params, &["threadId"]).is_none_or(|thread| self.thread.as_deref() == Some(thread));
        match method {
            "item/started" => {
                self.changes.note(start, &params["item"]);
                let tool = text(params, &["item", "type"]).is_some_and(|kind| TOOLS.contains(&kind));
                if tool { vec![Signal::ToolStarted] } else { Vec::new() }
            }
            "item/completed" => self.completed(own, &params["item"]),
            "thread/tokenUsage/updated" => self.counted(start, own, params),
            "account/rateLimits/updated" => {
                self.quota_until = quota_until(&params["rateLimits"]);
                Vec::new()
            }
            "serverRequest/resolved" => self.requests.close(&params["requestId"]).into_iter().collect(),
            "thread/status/changed" if own => {
                let work = match text(params, &["status", "type"]) {
                    Some("active") => Work::Busy,
                    Some("idle") => Work::Idle,
                    Some("systemError") => Work::Failed,
                    _ => return Vec::new(),
                };
                self.turn.works(work).into_iter().collect()
            }
            "model/rerouted" if own => {
                self.uses_model(text(params, &["toModel"]).or(text(params, &["model"])));
                Vec::new()
            }
            "thread/settings/updated" if own => {
                self.uses_model(text(params, &["settings", "model"]).or(text(params, &["model"])));
                Vec::new()
            }
            "turn/started" if own => {
                self.turn_id = id(params, "turn").or(self.turn_id.take());
                self.turn.begin().into_iter().collect()
            }
            "turn/completed" if own => {
                let (ended, known) = (text(params, &["turn", "id"]), self.turn_id.as_deref());
                let is_other = ended.zip(known).is_some_and(|(ended, known)| ended != known);
                if is_other || (ended.is_some() && ended == self.idle_turn_id.as_deref()) {
                    return Vec::new();
                }
                let (ending, error) = ending(&params["turn"]);
                let refused = refused(&params["turn"]["error"]["codexErrorInfo"], self.quota_until);
                let refused = refused.filter(|_| ending == TurnEnding::Limited);
                refused.into_iter().chain(self.ended(ending, error)).collect()
            }
            "thread/closed" if own && self.thread.is_some() => {
                self.stage = Stage::Broken;
                self.turn.end(TurnEnding::AgentExit, None, (None, None));
                self.clean = Clean::Done;
                vec![Signal::SessionChanged { state: SessionState::Stopped, background: 0 }]
            }
            _ => Vec::new(),
        }
    }

    fn opened(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let Some(thread) = id(result, "thread") else {
            return self.broke("codex opened a thread without an id".to_owned());
        };
        (self.thread, self.used) = (Some(thread), None);
        self.uses_model(text(result, &["model"]));
        // A copy was made without what is to be forgotten.
        let is_copy = start.fork || self.stage == Stage::Copied;
        match start.forget_after.is_some() && !is_copy {
            true => {
                self.stage = Stage::Opened;
                Vec::new()
            }
            false => self.ready(start),
        }
    }

    /// Begins the session: nothing is left to forget.
    fn ready(&mut self, start: &Start) -> Vec<Signal> {
        self.stage = Stage::Open;
        vec![Signal::SessionStarted { reference: self.thread.clone(), resumed_from: start.resume.clone() }]
    }

    /// Handles the list of turns, the newest first: what follows the last completed one is to be forgotten.
    fn listed(&mut self, start: &Start, result: &Value) -> Vec<Signal> {
        let turns = items(result, &["data"]).iter().filter_map(|turn| text(turn, &["id"]));
        let mut after = None;
        for turn in turns.filter(|turn| turn.len() <= ID_BYTES_MAX) {
            if Some(turn) == start.forget_after.as_deref() {
                return match after {
                    None => self.ready(start),
                    Some(_) => {
                        (self.revert_to, self.stage) = (after, Stage::Reverting);
                        Vec::new()
                    }
                };
            }
            after = Some(turn.to_owned());
        }
        // Too many turns did not complete, or its record was changed.
        self.stage = Stage::Copying;
        Vec::new()
    }

    /// Notes the model whose tokens are counted from now on.
    fn uses_model(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| model.len() <= ID_BYTES_MAX) {
            self.model = Some(model.to_owned());
        }
    }

    /// Returns what tokens cost, and says so if that is not known.
    fn spent(&mut self, start: &Start, tokens: Tokens) -> Vec<Signal> {
        let (usage, unpriced) = start.cost_of(self.model.as_deref(), tokens);
        let spent = self.turn.spent(usage);
        let unpriced = unpriced.filter(|_| spent.is_some());
        spent.into_iter().chain(unpriced).collect()
    }

    /// Gives up on the handshake.
    fn broke(&mut self, error: String) -> Vec<Signal> {
        self.stage = Stage::Broken;
        self.turn.without_session(error)
    }

    fn ended(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        self.requests.clear();
        if self.clean == Clean::Later {
            self.clean = Clean::Due;
        }
        let ended = self.turn.end(ending, error, (self.thread.as_deref(), self.turn_id.as_deref()));
        ended.into_iter().collect()
    }

    /// Handles a rejected steering input: it becomes a prompt, or a note says that it is lost.
    fn late(&mut self, input_text: Option<String>, error: &Value) -> Vec<Signal> {
        match input_text {
            Some(input_text) if self.late.len() < STEERS_MAX => {
                self.late.push(input_text);
                Vec::new()
            }
            _ => {
                let title =
                    line(&format!("an input was rejected by the turn and lost: {}", error_text(error)));
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
            // A sub-agent's thread: only its last request is new.
            return self.spent(start, last);
        }
        let present = text(params, &["turnId"]).is_some_and(|turn| self.turn_id.as_deref() == Some(turn));
        let more = match self.used.replace(total) {
            Some(before) => total.since(before),
            None if start.resume.is_none() => total,
            None if present => last,
            // The usage of an earlier turn of a resumed thread is the baseline.
            None => return Vec::new(),
        };
        self.spent(start, more)
    }
}

/// Returns the id of a thread or turn, if it is short enough to keep.
fn id(params: &Value, what: &str) -> Option<String> {
    let id = text(params, &[what, "id"])?;
    (id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}

fn tokens(account: &Value) -> Tokens {
    let count = |name: &str| number(account, &[name]).unwrap_or(0);
    Tokens {
        read: count("inputTokens"),
        cached: count("cachedInputTokens"),
        stored: count("cacheWriteInputTokens"),
        written: count("outputTokens"),
    }
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

/// Returns when the quota is restored: when the last window that is used up ends.
fn quota_until(limits: &Value) -> Option<u64> {
    let used_up = ["primary", "secondary"].iter().map(|window| &limits[*window]);
    let used_up = used_up.filter(|window| window["usedPercent"].as_f64().is_some_and(|used| used >= 100.0));
    used_up.filter_map(|window| number(window, &["resetsAt"])).max()
}

/// Returns that the provider refused to answer, if that is why a turn failed.
fn refused(info: &Value, quota_until: Option<u64>) -> Option<Signal> {
    let status = info.as_object().and_then(|kinds| kinds.values().next());
    let status = status.and_then(|kind| number(kind, &["httpStatusCode"]));
    let reset = quota_until.map_or(Reset::Unknown, |at| Reset::At(Timestamp(at.saturating_mul(1_000))));
    let (why, reset) = match (info.as_str(), status) {
        (Some("usageLimitExceeded"), _) => (Refused::Quota, reset),
        (Some("rateLimitExceeded"), _) | (_, Some(429)) => (Refused::Overload, Reset::Unknown),
        (Some("serverOverloaded"), _) | (_, Some(503 | 529)) => (Refused::Overload, Reset::Unknown),
        _ => return None,
    };
    Some(Signal::ProviderRefused { why, reset })
}

fn failure(info: &Value) -> TurnEnding {
    // Some kinds are plain strings, others objects with the HTTP status of the model's server.
    let status = info.as_object().and_then(|kinds| kinds.values().next());
    let status = status.and_then(|kind| number(kind, &["httpStatusCode"]));
    match info.as_str() {
        Some(word) if LIMITS.contains(&word) => TurnEnding::Limited,
        Some(word) if REFUSALS.contains(&word) => TurnEnding::Refused,
        _ if matches!(status, Some(429 | 503 | 529)) => TurnEnding::Limited,
        _ => TurnEnding::Failed,
    }
}

/// Returns the title of a completed item; `None` for items not worth showing.
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
