//! The lines of `claude -p --output-format stream-json`, which qwen writes too.
//!
//! Its messages say too little of what was written; that is said with the parts of a message, if it is asked for them, and else with
//! the end. Qwen's messages say it, and at the end it says what was spent beside them, in all the conversation.

use serde_json::Value;

use super::Word;
use crate::claude::{complaint, ending, of_turn};
use crate::permission::ToolUse;
use crate::show::joined;
use crate::tokens::Tokens;
use crate::value::{at, items, micros, number, text};

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let subtype = text(said, &["subtype"]);
    let words = match (kind, subtype) {
        ("system", Some("init")) => {
            let session = text(said, &["session_id"]).map(str::to_owned).map(Word::Session);
            session.into_iter().chain([Word::Step]).collect()
        }
        ("system", Some("background_tasks_changed")) => vec![Word::Background(items(said, &["tasks"]).len())],
        ("system", Some(_)) => Vec::new(),
        ("stream_event", _) => match text(said, &["event", "type"]) {
            Some("message_delta") => {
                // Its money is said with the end.
                at(said, &["event", "usage"])
                    .map(|usage| Word::Spent(tokens(usage), Some(0)))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        },
        ("rate_limit_event", _) => Vec::new(),
        ("assistant", _) if said.get("message").is_some() => answered(said),
        ("user", _) if said.get("message").is_some() => {
            items(said, &["message", "content"]).iter().filter_map(tool_done).collect()
        }
        ("result", Some(subtype)) => ended(said, subtype),
        _ => return None,
    };
    Some(words)
}

fn answered(said: &Value) -> Vec<Word> {
    // Not of its model: what went wrong is said again with the end of the turn.
    if text(said, &["message", "model"]) == Some("<synthetic>") {
        return Vec::new();
    }
    let spent = at(said, &["message", "usage"]).filter(|usage| is_qwens(usage));
    let spent = spent.map(|usage| Word::Spent(tokens(usage), None));
    let blocks =
        items(said, &["message", "content"]).iter().filter_map(|block| match text(block, &["type"])? {
            "text" => text(block, &["text"]).map(|said| Word::Message(said.to_owned())),
            "tool_use" => {
                let title =
                    ToolUse::from_input(text(block, &["name"]).unwrap_or("a tool"), &block["input"]).line();
                Some(Word::Tool { id: text(block, &["id"])?.to_owned(), title })
            }
            _ => None,
        });
    blocks.chain(spent).collect()
}

fn tool_done(block: &Value) -> Option<Word> {
    let id = text(block, &["tool_use_id"])?.to_owned();
    let outcome = (block["is_error"] == true).then(|| "failed".to_owned());
    Some(Word::ToolDone { id: Some(id), title: None, outcome, output: joined(&block["content"]) })
}

fn ended(said: &Value, subtype: &str) -> Vec<Word> {
    let usage = &said["usage"];
    let money = of_turn(said).or_else(|| micros(said, &["total_cost_usd"]));
    let spent = match is_qwens(usage) {
        true => Word::SpentEver(tokens(usage), money),
        false => Word::SpentInAll(tokens(usage), money),
    };
    let denied = items(said, &["permission_denials"]).iter().map(|denial| {
        let tool = text(denial, &["tool_name"]).unwrap_or("a tool");
        Word::Denied(ToolUse::from_input(tool, &denial["tool_input"]).line())
    });
    let ended = Word::Ended(ending(said, subtype), Some(complaint(said, subtype)));
    [spent].into_iter().chain(denied).chain([ended]).collect()
}

/// Reports whether an account is qwen's, in which tokens from a cache are among those that were read.
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
    Tokens { read, cached, written: count("output_tokens") }
}
