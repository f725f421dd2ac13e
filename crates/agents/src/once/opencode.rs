//! The lines of `opencode run --format json`.
//!
//! No event ends its turn: after the last step it exits, with a code that is not zero if it said an error. A tool is not seen before
//! it is done. A model that fails is asked again without a word.

use serde_json::Value;

use super::Word;
use crate::tokens::Tokens;
use crate::value::{at, micros, number, text};

/// Why a step ends after which another follows.
const GOES_ON: [&str; 2] = ["tool-calls", "unknown"];

/// Returns what a line says; none, if it is not one of these.
pub(super) fn read(kind: &str, said: &Value) -> Option<Vec<Word>> {
    let session = Word::Session(text(said, &["sessionID"])?.to_owned());
    let part = &said["part"];
    let more = match kind {
        "step_start" => vec![Word::Step],
        "reasoning" => Vec::new(),
        "text" => vec![Word::Message(text(part, &["text"])?.to_owned())],
        "tool_use" => vec![tool_done(part)],
        "step_finish" => finished(part),
        "error" => {
            let error = &said["error"];
            let words = text(error, &["data", "message"]).or(text(error, &["name"]));
            vec![Word::Wrong(words.unwrap_or("an error without words").to_owned())]
        }
        _ => return None,
    };
    Some([session].into_iter().chain(more).collect())
}

fn tool_done(part: &Value) -> Word {
    let state = &part["state"];
    let tool = text(part, &["tool"]).unwrap_or("a tool");
    let title = match text(state, &["title"]).filter(|title| !title.is_empty()) {
        Some(title) => format!("{tool}: {title}"),
        None => crate::permission::ToolUse::from_input(tool, &state["input"]).line(),
    };
    let code = at(state, &["metadata", "exit"]).and_then(Value::as_i64).filter(|code| *code != 0);
    let failed = text(state, &["status"]).filter(|status| *status != "completed");
    Word::ToolDone {
        id: None,
        title: Some(title),
        outcome: code.map(|code| format!("exit {code}")).or(failed.map(|_| "failed".to_owned())),
        output: text(state, &["output"]).or(text(state, &["error"])).unwrap_or_default().to_owned(),
    }
}

fn finished(part: &Value) -> Vec<Word> {
    let count = |path: &[&str]| number(part, path).unwrap_or(0);
    let cached = count(&["tokens", "cache", "read"]);
    let read = [&["tokens", "input"][..], &["tokens", "cache", "write"]].into_iter().map(count);
    let read = read.fold(cached, u64::saturating_add);
    // What it thought is written too, and counted beside.
    let written = count(&["tokens", "output"]).saturating_add(count(&["tokens", "reasoning"]));
    let written = number(part, &["tokens", "total"]).map_or(written, |total| total.saturating_sub(read));
    let spent = Word::Spent(Tokens { read, cached, written }, micros(part, &["cost"]));
    let is_last = text(part, &["reason"]).is_none_or(|reason| !GOES_ON.contains(&reason));
    [spent].into_iter().chain(is_last.then_some(Word::LastStep)).collect()
}
