//! The lines of `copilot -p … --output-format json`.
//!
//! The result names the conversation and the exit code to come. Usage is not reported.

use lastword_core::event::TurnEnding;
use serde_json::Value;

use super::update::Update;
use crate::permission::ToolUse;
use crate::value::{at, text};

/// Prefixes of its other event types.
const OTHER_EVENTS: [&str; 5] = ["session.", "user.", "assistant.", "model.", "tool."];

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let data = &event["data"];
    let updates = match kind {
        "assistant.message" => {
            let content = text(data, &["content"]).filter(|content| !content.is_empty());
            content.map(|content| Update::Message(content.to_owned())).into_iter().collect()
        }
        "tool.execution_start" => {
            let title = ToolUse::from_input(text(data, &["toolName"])?, &data["arguments"]).line();
            vec![Update::ToolStarted { id: text(data, &["toolCallId"])?.to_owned(), title }]
        }
        "tool.execution_complete" => {
            let code = at(data, &["shellExecution", "exitCode"]).and_then(Value::as_i64);
            let code = code.filter(|code| *code != 0).map(|code| format!("exit {code}"));
            let error = text(data, &["error", "message"]);
            vec![Update::ToolEnded {
                id: Some(text(data, &["toolCallId"])?.to_owned()),
                title: None,
                outcome: code.or_else(|| (data["success"] == false).then(|| "failed".to_owned())),
                output: text(data, &["result", "content"]).or(error).unwrap_or_default().to_owned(),
            }]
        }
        "session.error" => vec![Update::Error(text(data, &["message"])?.to_owned())],
        "result" => {
            let session = Update::Session(text(event, &["sessionId"])?.to_owned());
            let ended = match at(event, &["exitCode"])?.as_i64()? {
                0 => Update::TurnEnded(TurnEnding::Completed, None),
                code => Update::TurnEnded(
                    TurnEnding::Failed,
                    Some(format!("the agent exited with status {code}")),
                ),
            };
            vec![session, ended]
        }
        other => OTHER_EVENTS.iter().any(|prefix| other.starts_with(prefix)).then(Vec::new)?,
    };
    Some(updates)
}
