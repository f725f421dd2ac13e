//! The lines of `claude -p --output-format stream-json`, which qwen prints too.
//!
//! Claude's messages understate their output tokens. Its stream events have the true count, if they are enabled, and so has the result.
//! Qwen's messages have the true count; its result has the total of the conversation.

use serde_json::Value;

use super::update::Update;
use crate::claude::{ending, error_text, mark, turn_cost};
use crate::permission::ToolUse;
use crate::tokens::Tokens;
use crate::value::{at, items, joined, micros, number, text};

/// Parses a line; `None` if it is in another format.
pub(super) fn read(kind: &str, event: &Value) -> Option<Vec<Update>> {
    let subtype = text(event, &["subtype"]);
    let updates = match (kind, subtype) {
        ("system", Some("init")) => {
            let session = text(event, &["session_id"]).map(str::to_owned).map(Update::Session);
            session.into_iter().chain([Update::StepStarted]).collect()
        }
        ("system", Some("background_tasks_changed")) => {
            vec![Update::Background(items(event, &["tasks"]).len())]
        }
        ("system", Some(_)) => Vec::new(),
        ("stream_event", _) => match text(event, &["event", "type"]) {
            Some("message_delta") => {
                // The result reports the cost.
                at(event, &["event", "usage"])
                    .map(|usage| Update::Spent(tokens(usage), Some(0)))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        },
        ("rate_limit_event", _) => Vec::new(),
        ("assistant", _) if event.get("message").is_some() => assistant(event),
        ("user", _) if event.get("message").is_some() => {
            items(event, &["message", "content"]).iter().filter_map(tool_ended).collect()
        }
        ("result", Some(subtype)) => result(event, subtype),
        _ => return None,
    };
    Some(updates)
}

fn assistant(event: &Value) -> Vec<Update> {
    // Not from the model: an error, which the result repeats.
    if text(event, &["message", "model"]) == Some("<synthetic>") {
        return Vec::new();
    }
    let spent = at(event, &["message", "usage"]).filter(|usage| is_qwens(usage));
    let spent = spent.map(|usage| Update::Spent(tokens(usage), None));
    let blocks =
        items(event, &["message", "content"]).iter().filter_map(|block| match text(block, &["type"])? {
            "text" => text(block, &["text"]).map(|content| Update::Message(content.to_owned())),
            "thinking" => text(block, &["thinking"]).map(|content| Update::Reasoning(content.to_owned())),
            "tool_use" => {
                let title =
                    ToolUse::from_input(text(block, &["name"]).unwrap_or("a tool"), &block["input"]).line();
                Some(Update::ToolStarted { id: text(block, &["id"])?.to_owned(), title })
            }
            _ => None,
        });
    blocks.chain(spent).chain(mark(event).map(Update::Mark)).collect()
}

fn tool_ended(block: &Value) -> Option<Update> {
    let id = text(block, &["tool_use_id"])?.to_owned();
    let outcome = (block["is_error"] == true).then(|| "failed".to_owned());
    Some(Update::ToolEnded { id: Some(id), title: None, outcome, output: joined(&block["content"]) })
}

fn result(event: &Value, subtype: &str) -> Vec<Update> {
    let usage = &event["usage"];
    let money = turn_cost(event).or_else(|| micros(event, &["total_cost_usd"]));
    let spent = match is_qwens(usage) {
        true => Update::ConversationTotal(tokens(usage), money),
        false => Update::Total(tokens(usage), money),
    };
    let denied = items(event, &["permission_denials"]).iter().map(|denial| {
        let tool = text(denial, &["tool_name"]).unwrap_or("a tool");
        Update::Denied(ToolUse::from_input(tool, &denial["tool_input"]).line())
    });
    let ended = Update::TurnEnded(ending(event, subtype), Some(error_text(event, subtype)));
    [spent].into_iter().chain(denied).chain([ended]).collect()
}

/// Reports whether this is qwen's usage, whose `input_tokens` include cached ones.
fn is_qwens(usage: &Value) -> bool {
    usage.get("total_tokens").is_some()
}

fn tokens(usage: &Value) -> Tokens {
    let count = |name: &str| number(usage, &[name]).unwrap_or(0);
    let (fresh, cached) = (count("input_tokens"), count("cache_read_input_tokens"));
    let read = match is_qwens(usage) {
        true => fresh,
        false => fresh.saturating_add(cached).saturating_add(count("cache_creation_input_tokens")),
    };
    Tokens { read, cached, stored: 0, written: count("output_tokens") }
}
