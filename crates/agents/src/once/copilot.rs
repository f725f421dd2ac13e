//! The lines of `copilot -p … --output-format json`.
//!
//! The conversation is named with the end, which also says with which code it will exit. What was spent is not said.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::Word;
use crate::permission::ToolUse;
use crate::value::{at, text};

/// How the names of its other lines begin.
const REST: [&str; 5] = ["session.", "user.", "assistant.", "model.", "tool."];

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let data = &said["data"];
    let words = match kind {
        "assistant.message" => {
            let said = text(data, &["content"]).filter(|said| !said.is_empty());
            said.map(|said| Word::Message(said.to_owned())).into_iter().collect()
        }
        "tool.execution_start" => {
            let title = ToolUse::from_input(text(data, &["toolName"])?, &data["arguments"]).line();
            vec![Word::Tool { id: text(data, &["toolCallId"])?.to_owned(), title }]
        }
        "tool.execution_complete" => {
            let code = at(data, &["shellExecution", "exitCode"]).and_then(Value::as_i64);
            let code = code.filter(|code| *code != 0).map(|code| format!("exit {code}"));
            let error = text(data, &["error", "message"]);
            vec![Word::ToolDone {
                id: Some(text(data, &["toolCallId"])?.to_owned()),
                title: None,
                outcome: code.or_else(|| (data["success"] == false).then(|| "failed".to_owned())),
                output: text(data, &["result", "content"]).or(error).unwrap_or_default().to_owned(),
            }]
        }
        "session.error" => vec![Word::Wrong(text(data, &["message"])?.to_owned())],
        "result" => {
            let session = Word::Session(text(said, &["sessionId"])?.to_owned());
            let ended = match at(said, &["exitCode"])?.as_i64()? {
                0 => Word::Ended(TurnEnding::Completed, None),
                code => Word::Ended(TurnEnding::Failed, Some(format!("it exits with {code}"))),
            };
            vec![session, ended]
        }
        other => REST.iter().any(|rest| other.starts_with(rest)).then(Vec::new)?,
    };
    Some(words)
}
