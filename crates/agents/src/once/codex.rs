//! The lines of `codex exec --json`.
//!
//! Its errors are remarks: a connection that was lost and is tried again is one, and so is a model that it does not know well. That a
//! turn failed has an event of its own.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::Word;
use crate::tokens::Tokens;
use crate::value::{at, items, number, text};

/// What it says, in words, when a limit of its model was reached.
const LIMITS: [&str; 3] = ["429 Too Many Requests", "usage limit", "quota"];

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let item = &said["item"];
    let words = match kind {
        "thread.started" => {
            text(said, &["thread_id"]).map(str::to_owned).map(Word::Session).into_iter().collect()
        }
        "turn.started" => Vec::new(),
        "item.started" => begun(item).into_iter().collect(),
        "item.updated" => Vec::new(),
        "item.completed" => completed(item).into_iter().collect(),
        "error" => vec![Word::Note(text(said, &["message"])?.to_owned())],
        "turn.completed" => {
            vec![Word::SpentInAll(tokens(&said["usage"]), None), Word::Ended(TurnEnding::Completed, None)]
        }
        "turn.failed" => {
            let error = text(said, &["error", "message"]).unwrap_or("its turn failed");
            let limited = LIMITS.iter().any(|limit| error.contains(limit));
            let ending = if limited { TurnEnding::Limited } else { TurnEnding::Failed };
            vec![Word::Ended(ending, Some(error.to_owned()))]
        }
        _ => return None,
    };
    Some(words)
}

fn begun(item: &Value) -> Option<Word> {
    let title = title(item)?;
    Some(Word::Tool { id: text(item, &["id"])?.to_owned(), title })
}

fn completed(item: &Value) -> Option<Word> {
    match text(item, &["type"])? {
        "agent_message" => text(item, &["text"]).map(|said| Word::Message(said.to_owned())),
        "error" => text(item, &["message"]).map(|said| Word::Note(said.to_owned())),
        _ => {
            let status = text(item, &["status"]).filter(|status| *status != "completed");
            let code = at(item, &["exit_code"]).and_then(Value::as_i64).filter(|code| *code != 0);
            Some(Word::ToolDone {
                id: text(item, &["id"]).map(str::to_owned),
                title: Some(title(item)?),
                outcome: code.map(|code| format!("exit {code}")).or(status.map(str::to_owned)),
                output: text(item, &["aggregated_output"]).unwrap_or_default().to_owned(),
            })
        }
    }
}

/// Returns what a tool does; none for what is no tool.
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
        read: count("input_tokens"),
        cached: count("cached_input_tokens"),
        written: count("output_tokens"),
    }
}
