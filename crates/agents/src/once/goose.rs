//! The lines of `goose run --output-format stream-json`.
//!
//! A banner comes before them, and nothing else names the conversation. A message comes in parts of one name. That its model failed is
//! a message too, which no model has said; then it completes, and exits well.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::Word;
use crate::permission::ToolUse;
use crate::show::joined;
use crate::tokens::Tokens;
use crate::value::{at, items, micros, number, text};

/// What goose begins a message with that is not its model's.
const FAULT: &str = "Ran into this error: ";

/// Returns the name of the conversation, if this is the line of the banner that says it: a date, and a number of that day.
pub(super) fn banner(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?.trim_start().strip_prefix(r"\____)")?;
    let name = line.split_whitespace().next()?;
    let (date, number) = name.split_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (date.len() == 8 && digits(date) && digits(number)).then(|| name.to_owned())
}

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let words = match kind {
        "message" => {
            let message = said.get("message")?;
            text(message, &["role"])?;
            items(message, &["content"]).iter().filter_map(|block| word(block, message)).collect()
        }
        "notification" | "model_change" => Vec::new(),
        "error" => vec![Word::Wrong(text(said, &["error"])?.to_owned())],
        "complete" => {
            let count = |name: &str| number(said, &[name]).unwrap_or(0);
            let cached = count("cache_read_input_tokens");
            let tokens = Tokens { read: count("input_tokens"), cached, written: count("output_tokens") };
            let spent = Word::SpentEver(tokens, micros(said, &["cost_usd"]));
            vec![spent, Word::Ended(TurnEnding::Completed, None)]
        }
        _ => return None,
    };
    Some(words)
}

fn word(block: &Value, message: &Value) -> Option<Word> {
    let is_models = at(message, &["metadata", "inference"]).is_some();
    match text(block, &["type"])? {
        "text" if text(message, &["role"]) == Some("assistant") => match text(block, &["text"])? {
            fault if fault.starts_with(FAULT) && !is_models => Some(Word::Wrong(fault.to_owned())),
            said => Some(Word::Part(text(message, &["id"]).map(str::to_owned), said.to_owned())),
        },
        "toolRequest" => {
            let call = at(block, &["toolCall", "value"])?;
            let title = ToolUse::from_input(text(call, &["name"])?, &call["arguments"]).line();
            Some(Word::Tool { id: text(block, &["id"])?.to_owned(), title })
        }
        "toolResponse" => {
            let result = &block["toolResult"];
            let value = &result["value"];
            let code = number(value, &["structuredContent", "exit_code"]).filter(|code| *code != 0);
            let failed = text(result, &["status"]) != Some("success") || value["isError"] == true;
            Some(Word::ToolDone {
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
