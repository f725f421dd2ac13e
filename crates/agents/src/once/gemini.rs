//! The lines of `gemini -p … -o stream-json`.
//!
//! A tool that exits non-zero still counts as a success. An `error` event of severity `error` means that the model refused or failed,
//! although the result then says success.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::update::Update;
use crate::permission::ToolUse;
use crate::tokens::Tokens;
use crate::value::{number, text};

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let updates = match kind {
        "init" => vec![Update::Session(text(event, &["session_id"])?.to_owned())],
        "message" => {
            let (role, content) = (text(event, &["role"])?, text(event, &["content"])?.to_owned());
            match role {
                "assistant" if event["delta"] == true => vec![Update::MessagePart(None, content)],
                "assistant" => vec![Update::Message(content)],
                _ => Vec::new(),
            }
        }
        "tool_use" => {
            let title = ToolUse::from_input(text(event, &["tool_name"])?, &event["parameters"]).line();
            vec![Update::ToolStarted { id: text(event, &["tool_id"])?.to_owned(), title }]
        }
        "tool_result" => {
            let status = text(event, &["status"])?;
            let error = text(event, &["error", "message"]);
            vec![Update::ToolEnded {
                id: Some(text(event, &["tool_id"])?.to_owned()),
                title: None,
                outcome: (status != "success").then(|| "failed".to_owned()),
                output: text(event, &["output"]).or(error).unwrap_or_default().to_owned(),
            }]
        }
        "error" => {
            let (severity, message) = (text(event, &["severity"])?, text(event, &["message"])?.to_owned());
            vec![if severity == "error" { Update::Error(message) } else { Update::Note(message) }]
        }
        "result" => result(event, text(event, &["status"])?),
        _ => return None,
    };
    Some(updates)
}

fn result(event: &Value, status: &str) -> Vec<Update> {
    let count = |name: &str| number(event, &["stats", name]).unwrap_or(0);
    let tokens = Tokens {
        read: count("input_tokens"),
        cached: count("cached"),
        stored: 0,
        written: count("output_tokens"),
    };
    let ended = match status {
        "success" => Update::TurnEnded(TurnEnding::Completed, None),
        _ => {
            // May be absent: an earlier event then has the message.
            let error = text(event, &["error", "message"]);
            let limited = text(event, &["error", "type"]).is_some_and(|kind| kind.contains("TurnLimited"));
            let ending = if limited { TurnEnding::Limited } else { TurnEnding::Failed };
            Update::TurnEnded(ending, error.map(str::to_owned))
        }
    };
    vec![Update::Total(tokens, None), ended]
}
