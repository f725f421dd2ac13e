//! The lines of `codex exec --json`.
//!
//! Its `error` events are remarks, such as a reconnect or an unknown model. A failed turn has an event of its own.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::update::Update;
use crate::tokens::Tokens;
use crate::value::{at, items, number, text};

/// Parts of an error message that mean a limit of the model was reached.
const LIMITS: [&str; 3] = ["429 Too Many Requests", "usage limit", "quota"];

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let item = &event["item"];
    let updates = match kind {
        "thread.started" => {
            text(event, &["thread_id"]).map(str::to_owned).map(Update::Session).into_iter().collect()
        }
        "turn.started" => Vec::new(),
        "item.started" => begun(item).into_iter().collect(),
        "item.updated" => Vec::new(),
        "item.completed" => completed(item).into_iter().collect(),
        "error" => vec![Update::Note(text(event, &["message"])?.to_owned())],
        "turn.completed" => {
            vec![Update::Total(tokens(&event["usage"]), None), Update::TurnEnded(TurnEnding::Completed, None)]
        }
        "turn.failed" => {
            let error = text(event, &["error", "message"]).unwrap_or("the turn failed");
            let limited = LIMITS.iter().any(|limit| error.contains(limit));
            let ending = if limited { TurnEnding::Limited } else { TurnEnding::Failed };
            vec![Update::TurnEnded(ending, Some(error.to_owned()))]
        }
        _ => return None,
    };
    Some(updates)
}

fn begun(item: &Value) -> Option<Update> {
    let title = title(item)?;
    Some(Update::ToolStarted { id: text(item, &["id"])?.to_owned(), title })
}

fn completed(item: &Value) -> Option<Update> {
    match text(item, &["type"])? {
        "agent_message" => text(item, &["text"]).map(|content| Update::Message(content.to_owned())),
        "reasoning" => text(item, &["text"]).map(|content| Update::Reasoning(content.to_owned())),
        "error" => text(item, &["message"]).map(|content| Update::Note(content.to_owned())),
        _ => {
            let status = text(item, &["status"]).filter(|status| *status != "completed");
            let code = at(item, &["exit_code"]).and_then(Value::as_i64).filter(|code| *code != 0);
            Some(Update::ToolEnded {
                id: text(item, &["id"]).map(str::to_owned),
                title: Some(title(item)?),
                outcome: code.map(|code| format!("exit {code}")).or(status.map(str::to_owned)),
                output: text(item, &["aggregated_output"]).unwrap_or_default().to_owned(),
            })
        }
    }
}

/// Returns the title of a tool; `None` for other items.
fn title(item: &Value) -> Option<String> {
    match text(item, &["type"])? {
        "command_execution" => text(item, &["command"]).map(crate::codex::command),
        "file_change" => {
            let changes = items(item, &["changes"]).iter();
            let paths: Vec<&str> = changes.filter_map(|change| text(change, &["path"])).collect();
            Some(format!("fileChange: {}", paths.join(", ")))
        }
        "web_search" => text(item, &["query"]).map(|query| format!("webSearch: {query}")),
        "mcp_tool_call" | "collab_tool_call" => text(item, &["tool"]).map(str::to_owned),
        _ => None,
    }
}

fn tokens(usage: &Value) -> Tokens {
    let count = |name: &str| number(usage, &[name]).unwrap_or(0);
    Tokens {
        stored: 0,
        read: count("input_tokens"),
        cached: count("cached_input_tokens"),
        written: count("output_tokens"),
    }
}
