//! What a line of each dialect says, for its transcript. A streamed message is said part by part, and not again as a whole.

use lastword_core::event::TurnEnding;
use lastword_core::spec::Dialect;
use serde_json::Value;

use super::change::Status;
use super::fold::{Fold, hash};
use crate::once::{self, Update};
use crate::rpc::{Message, error_text};
use crate::value::{at, items, joined, number, text};

impl Fold {
    pub(super) fn read(&mut self, line: &[u8]) {
        match self.dialect {
            Dialect::Claude => self.claude(line),
            Dialect::Codex => self.codex(line),
            Dialect::Acp => self.acp(line),
            Dialect::Once => self.once(line),
            // It has no lines with a meaning.
            Dialect::Plain => {}
        }
    }

    fn claude(&mut self, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        match text(&event, &["type"]) {
            Some("stream_event") => {
                let kind = text(&event, &["event", "type"]);
                self.missed_start &= kind != Some("content_block_start");
                self.in_parts = !self.missed_start;
                match kind {
                    Some("content_block_delta") => {
                        self.think(text(&event, &["event", "delta", "thinking"]));
                        self.part(text(&event, &["event", "delta", "text"]));
                    }
                    Some("content_block_stop") => {
                        self.end_reasoning();
                        self.end_message();
                    }
                    _ => {}
                }
            }
            Some("assistant") => {
                items(&event, &["message", "content"]).iter().for_each(|block| self.claude_block(block));
            }
            Some("user") => {
                let content = items(&event, &["message", "content"]).iter();
                content.filter(|block| text(block, &["type"]) == Some("tool_result")).for_each(|block| {
                    let status = ended(block["is_error"] == true);
                    self.tool_ended(text(block, &["tool_use_id"]), status, &joined(&block["content"]));
                });
            }
            Some("result") if at(&event, &["is_error"]) == Some(&Value::Bool(true)) => {
                let errors = items(&event, &["errors"]).first().and_then(Value::as_str);
                self.note(text(&event, &["result"]).filter(|text| !text.is_empty()).or(errors));
            }
            _ => {}
        }
    }

    fn claude_block(&mut self, block: &Value) {
        match text(block, &["type"]) {
            Some("text") if !self.in_parts => self.whole(text(block, &["text"])),
            Some("thinking") if !self.in_parts => {
                self.think(text(block, &["thinking"]));
                self.end_reasoning();
            }
            Some("tool_use") => {
                let what = ["command", "file_path", "pattern", "url", "description"];
                let what = what.iter().find_map(|name| text(block, &["input", name])).unwrap_or_default();
                let name = text(block, &["name"]).unwrap_or("tool");
                self.tool(text(block, &["id"]), &titled(name, what));
            }
            _ => {}
        }
    }

    fn codex(&mut self, line: &[u8]) {
        let (method, params) = match Message::read(line) {
            Some(Message::Notice { method, params }) => (method, params),
            Some(Message::Reply { result: Err(error), .. }) => return self.note(Some(&error_text(&error))),
            _ => return,
        };
        match method.as_str() {
            "item/agentMessage/delta" => {
                let message = text(&params, &["itemId"]).filter(|_| !self.missed_start);
                self.part_of = message.map(hash);
                self.part(text(&params, &["delta"]));
            }
            "item/reasoning/summaryPartAdded" if number(&params, &["summaryIndex"]) != Some(0) => {
                self.think(self.is_thinking().then_some("\n\n"));
            }
            "item/reasoning/summaryTextDelta" => self.think(text(&params, &["delta"])),
            "item/commandExecution/outputDelta" => {
                self.tool_output(text(&params, &["itemId"]), &joined(&params["delta"]));
            }
            "item/started" => self.codex_started(&params["item"]),
            "item/completed" => self.codex_completed(&params["item"]),
            "error" => self.note(text(&params, &["error", "message"])),
            _ => {}
        }
    }

    fn codex_started(&mut self, item: &Value) {
        let id = text(item, &["id"]);
        match text(item, &["type"]) {
            Some("agentMessage") => self.missed_start = false,
            Some("commandExecution") => {
                self.tool(id, &text(item, &["command"]).map(crate::codex::command).unwrap_or_default());
            }
            Some(kind @ ("mcpToolCall" | "dynamicToolCall")) => {
                self.tool(id, &titled(kind, text(item, &["tool"]).unwrap_or_default()));
            }
            Some(kind @ ("fileChange" | "webSearch")) => self.tool(id, kind),
            _ => {}
        }
    }

    fn codex_completed(&mut self, item: &Value) {
        let id = text(item, &["id"]);
        match text(item, &["type"]) {
            Some("agentMessage") if self.part_of.is_some() && self.part_of == id.map(hash) => {
                self.end_message();
            }
            Some("agentMessage") => self.whole(text(item, &["text"])),
            Some("reasoning") if self.is_thinking() => self.end_reasoning(),
            Some("reasoning") => {
                let parts: Vec<&str> = items(item, &["summary"]).iter().filter_map(Value::as_str).collect();
                self.think(Some(&parts.join("\n\n")));
                self.end_reasoning();
            }
            Some("commandExecution" | "mcpToolCall" | "dynamicToolCall" | "fileChange" | "webSearch") => {
                let failed = matches!(text(item, &["status"]), Some("failed" | "declined"));
                self.tool_ended(id, ended(failed), &joined(&item["aggregatedOutput"]));
            }
            _ => {}
        }
    }

    fn acp(&mut self, line: &[u8]) {
        let params = match Message::read(line) {
            Some(Message::Notice { method, params }) if method == "session/update" => params,
            Some(Message::Reply { result: Err(error), .. }) => return self.note(Some(&error_text(&error))),
            Some(Message::Reply { id, .. }) => {
                // The second request opens the session. Updates before its reply replay history.
                self.is_present |= id.as_u64() == Some(2);
                self.end_reasoning();
                return self.end_message();
            }
            _ => return,
        };
        let update = &params["update"];
        let id = text(update, &["toolCallId"]);
        match text(update, &["sessionUpdate"]) {
            _ if !self.is_present => {}
            Some("agent_message_chunk") => {
                self.message_part(text(update, &["messageId"]), text(update, &["content", "text"]));
            }
            Some("agent_thought_chunk") => self.think(text(update, &["content", "text"])),
            Some("tool_call") => self.tool(id, text(update, &["title"]).unwrap_or("tool")),
            Some("tool_call_update") => {
                let status = text(update, &["status"]);
                if let Some(status @ ("completed" | "failed")) = status {
                    let blocks = items(update, &["content"]).iter();
                    let texts = blocks.map(|block| joined(&block["content"]["text"]));
                    self.tool_ended(id, ended(status == "failed"), &lines(texts));
                }
            }
            _ => {}
        }
    }

    /// Says a part of a message that has a name. A part with another name begins the next message.
    fn message_part(&mut self, name: Option<&str>, part: Option<&str>) {
        let name = name.map(hash);
        if std::mem::replace(&mut self.part_of, name) != name {
            self.end_message();
        }
        self.part(part);
    }

    fn once(&mut self, line: &[u8]) {
        let Some((format, updates)) = once::read(line) else { return };
        if *self.format.get_or_insert(format) == format {
            updates.into_iter().for_each(|update| self.update(update));
        }
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::Message(text) => self.whole(Some(&text)),
            Update::MessagePart(name, text) => self.message_part(name.as_deref(), Some(&text)),
            Update::Reasoning(text) => {
                self.think(Some(&text));
                self.end_reasoning();
            }
            Update::ToolStarted { id, title } => self.tool(Some(&id), &title),
            Update::ToolEnded { id: None, title: Some(title), outcome, output } => {
                self.whole_tool(&title, ended(outcome.is_some()), &output);
            }
            Update::ToolEnded { id, outcome, output, .. } => {
                self.tool_ended(id.as_deref(), ended(outcome.is_some()), &output);
            }
            Update::TurnEnded(TurnEnding::Completed, _) => {}
            Update::Note(text) | Update::Error(text) | Update::TurnEnded(_, Some(text)) => {
                self.note(Some(&text));
            }
            _ => {}
        }
    }
}

fn ended(failed: bool) -> Status {
    if failed { Status::Failed } else { Status::Completed }
}

fn titled(name: &str, what: &str) -> String {
    let parts: Vec<&str> = [name, what].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// Joins texts, each of which begins a line.
fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.fold(String::new(), |mut all, text| {
        if !all.is_empty() && !all.ends_with('\n') && !text.is_empty() {
            all.push('\n');
        }
        all + &text
    })
}
