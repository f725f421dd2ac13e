//! The lines of `goose run --output-format stream-json`.
//!
//! Only the banner before them names the conversation. The parts of a message share an id. When its model fails, goose says so in a
//! message of its own, then completes and exits with zero.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::update::Update;
use crate::permission::ToolUse;
use crate::tokens::Tokens;
use crate::value::{at, items, joined, micros, number, text};

/// Prefix of the message with which goose reports that its model failed.
const MODEL_FAILED: &str = "Ran into this error: ";

/// Returns the conversation's name, a date and a number, if this is the banner line with it.
pub(super) fn banner(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?.trim_start().strip_prefix(r"\____)")?;
    let name = line.split_whitespace().next()?;
    let (date, number) = name.split_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (date.len() == 8 && digits(date) && digits(number)).then(|| name.to_owned())
}

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let updates = match kind {
        "message" => {
            let message = event.get("message")?;
            text(message, &["role"])?;
            items(message, &["content"]).iter().filter_map(|block| block_update(block, message)).collect()
        }
        "notification" | "model_change" => Vec::new(),
        "error" => vec![Update::Error(text(event, &["error"])?.to_owned())],
        "complete" => {
            let count = |name: &str| number(event, &[name]).unwrap_or(0);
            let cached = count("cache_read_input_tokens");
            let tokens =
                Tokens { read: count("input_tokens"), cached, stored: 0, written: count("output_tokens") };
            let spent = Update::ConversationTotal(tokens, micros(event, &["cost_usd"]));
            vec![spent, Update::TurnEnded(TurnEnding::Completed, None)]
        }
        _ => return None,
    };
    Some(updates)
}

fn block_update(block: &Value, message: &Value) -> Option<Update> {
    let is_models = at(message, &["metadata", "inference"]).is_some();
    match text(block, &["type"])? {
        "text" if text(message, &["role"]) == Some("assistant") => match text(block, &["text"])? {
            error if error.starts_with(MODEL_FAILED) && !is_models => Some(Update::Error(error.to_owned())),
            content => {
                Some(Update::MessagePart(text(message, &["id"]).map(str::to_owned), content.to_owned()))
            }
        },
        "thinking" => text(block, &["thinking"]).map(|content| Update::Reasoning(content.to_owned())),
        "toolRequest" => {
            let call = at(block, &["toolCall", "value"])?;
            let title = ToolUse::from_input(text(call, &["name"])?, &call["arguments"]).line();
            Some(Update::ToolStarted { id: text(block, &["id"])?.to_owned(), title })
        }
        "toolResponse" => {
            let result = &block["toolResult"];
            let value = &result["value"];
            let code = number(value, &["structuredContent", "exit_code"]).filter(|code| *code != 0);
            let failed = text(result, &["status"]) != Some("success") || value["isError"] == true;
            Some(Update::ToolEnded {
                id: Some(text(block, &["id"])?.to_owned()),
                title: None,
                outcome: code
                    .map(|code| format!("exit {code}"))
                    .or_else(|| failed.then(|| "failed".to_owned())),
                output: joined(&value["content"]),
            })
        }
        _ => None,
    }
}
