//! The lines of `gemini -p … -o stream-json`.
//!
//! A tool that ends with a code is a success to it. An error that it says is no remark: what its model would not say, or could not, is
//! one, and the result is a success all the same.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::Word;
use crate::permission::ToolUse;
use crate::tokens::Tokens;
use crate::value::{number, text};

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let words = match kind {
        "init" => vec![Word::Session(text(said, &["session_id"])?.to_owned())],
        "message" => {
            let (role, content) = (text(said, &["role"])?, text(said, &["content"])?.to_owned());
            match role {
                "assistant" if said["delta"] == true => vec![Word::Part(None, content)],
                "assistant" => vec![Word::Message(content)],
                _ => Vec::new(),
            }
        }
        "tool_use" => {
            let title = ToolUse::from_input(text(said, &["tool_name"])?, &said["parameters"]).line();
            vec![Word::Tool { id: text(said, &["tool_id"])?.to_owned(), title }]
        }
        "tool_result" => {
            let status = text(said, &["status"])?;
            let error = text(said, &["error", "message"]);
            vec![Word::ToolDone {
                id: Some(text(said, &["tool_id"])?.to_owned()),
                title: None,
                outcome: (status != "success").then(|| "failed".to_owned()),
                output: text(said, &["output"]).or(error).unwrap_or_default().to_owned(),
            }]
        }
        "error" => {
            let (severity, message) = (text(said, &["severity"])?, text(said, &["message"])?.to_owned());
            vec![if severity == "error" { Word::Wrong(message) } else { Word::Note(message) }]
        }
        "result" => ended(said, text(said, &["status"])?),
        _ => return None,
    };
    Some(words)
}

fn ended(said: &Value, status: &str) -> Vec<Word> {
    let count = |name: &str| number(said, &["stats", name]).unwrap_or(0);
    let tokens =
        Tokens { read: count("input_tokens"), cached: count("cached"), written: count("output_tokens") };
    let ended = match status {
        "success" => Word::Ended(TurnEnding::Completed, None),
        _ => {
            // It may have said before what it was.
            let error = text(said, &["error", "message"]);
            let limited = text(said, &["error", "type"]).is_some_and(|kind| kind.contains("TurnLimited"));
            let ending = if limited { TurnEnding::Limited } else { TurnEnding::Failed };
            Word::Ended(ending, error.map(str::to_owned))
        }
    };
    vec![Word::SpentInAll(tokens, None), ended]
}
