//! What an agent says about a tool before it asks for permission to use it. Some leave it out of the request: `goose` the name of the
//! tool, `opencode` the file that it reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::{at, text};

/// Running tools that are tracked by id. The start and end of any more are not seen.
pub(super) const TOOLS_MAX: usize = 16;

/// Longest id of a session, tool, message or option that is accepted, in bytes.
pub(super) const ID_BYTES_MAX: usize = 200;

/// Longest arguments that are kept, in bytes. A path and a few options fit; agents repeat longer ones in their request.
const INPUT_BYTES_MAX: usize = 4 << 10;

/// Longest name of a tool, in bytes, as models limit it.
const NAME_BYTES_MAX: usize = 64;

/// Tools that were announced and have not ended, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct AnnouncedTools(BTreeMap<String, Announced>);

/// What was said about one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Announced {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Its arguments; null if they are not known, or too long.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) input: Value,
}

impl AnnouncedTools {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records an update about a tool.
    pub(super) fn note(&mut self, tool: &str, update: &Value) {
        if !self.0.contains_key(tool) && self.0.len() >= TOOLS_MAX || tool.len() > ID_BYTES_MAX {
            return;
        }
        let announced = self.0.entry(tool.to_owned()).or_default();
        if let Some(name) =
            text(update, &["_meta", "goose", "toolCall", "toolName"]).filter(|name| is_name(name))
        {
            announced.name = Some(name.to_owned());
        }
        // Arguments are not complete before the tool is about to run.
        let is_ready = text(update, &["status"]) == Some("in_progress");
        if let Some(input) = at(update, &["rawInput"]).filter(|input| is_ready && is_said(input)) {
            let fits = input.to_string().len() <= INPUT_BYTES_MAX;
            announced.input = if fits { input.clone() } else { Value::Null };
        }
    }

    /// Forgets a tool that has ended.
    pub(super) fn forget(&mut self, tool: &str) {
        self.0.remove(tool);
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns what was said about the tool of a request.
    pub(super) fn of(&self, call: &Value) -> Announced {
        text(call, &["toolCallId"]).and_then(|tool| self.0.get(tool)).cloned().unwrap_or_default()
    }
}

/// Reports whether arguments say anything.
pub(super) fn is_said(input: &Value) -> bool {
    !input.is_null() && input.as_object().is_none_or(|fields| !fields.is_empty())
}

/// Reports whether this can be the name of a tool. A name with other characters could look like a whole line.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_part)
}
