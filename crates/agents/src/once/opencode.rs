//! The lines of `opencode run --format json`.
//!
//! No event ends its turn: it exits after the last step, with a non-zero status if it reported an error. A tool is reported only once it
//! has ended. A failing model is retried silently.

use serde_json::Value;

use super::update::Update;
use crate::tokens::Tokens;
use crate::value::{at, micros, number, text};

/// Reasons for the end of a step that is not the last.
const NOT_LAST: [&str; 2] = ["tool-calls", "unknown"];

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let session = Update::Session(text(event, &["sessionID"])?.to_owned());
    let part = &event["part"];
    let more = match kind {
        "step_start" => vec![Update::StepStarted],
        "reasoning" => {
            text(part, &["text"]).map(|content| Update::Reasoning(content.to_owned())).into_iter().collect()
        }
        "text" => vec![Update::Message(text(part, &["text"])?.to_owned())],
        "tool_use" => vec![tool_ended(part)],
        "step_finish" => step_ended(part),
        "error" => {
            let error = &event["error"];
            let message = text(error, &["data", "message"]).or(text(error, &["name"]));
            vec![Update::Error(message.unwrap_or("unknown error").to_owned())]
        }
        _ => return None,
    };
    Some([session].into_iter().chain(more).collect())
}

fn tool_ended(part: &Value) -> Update {
    let state = &part["state"];
    let tool = text(part, &["tool"]).unwrap_or("a tool");
    let title = match text(state, &["title"]).filter(|title| !title.is_empty()) {
        Some(title) => format!("{tool}: {title}"),
        None => crate::permission::ToolUse::from_input(tool, &state["input"]).line(),
    };
    let code = at(state, &["metadata", "exit"]).and_then(Value::as_i64).filter(|code| *code != 0);
    let failed = text(state, &["status"]).filter(|status| *status != "completed");
    Update::ToolEnded {
        id: None,
        title: Some(title),
        outcome: code.map(|code| format!("exit {code}")).or(failed.map(|_| "failed".to_owned())),
        output: text(state, &["output"]).or(text(state, &["error"])).unwrap_or_default().to_owned(),
    }
}

fn step_ended(part: &Value) -> Vec<Update> {
    let count = |path: &[&str]| number(part, path).unwrap_or(0);
    let cached = count(&["tokens", "cache", "read"]);
    let read = [&["tokens", "input"][..], &["tokens", "cache", "write"]].into_iter().map(count);
    let read = read.fold(cached, u64::saturating_add);
    // Reasoning tokens are output too, and counted separately.
    let written = count(&["tokens", "output"]).saturating_add(count(&["tokens", "reasoning"]));
    let written = number(part, &["tokens", "total"]).map_or(written, |total| total.saturating_sub(read));
    let spent = Update::Spent(Tokens { read, cached, stored: 0, written }, micros(part, &["cost"]));
    let is_last = text(part, &["reason"]).is_none_or(|reason| !NOT_LAST.contains(&reason));
    [spent].into_iter().chain(is_last.then_some(Update::LastStepEnded)).collect()
}
