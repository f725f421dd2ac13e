//! An agent's output as people read it: text as it streams, tools with their output, and errors.
//!
//! A streamed message is shown part by part, and not again as a whole.

use lastword_core::event::TurnEnding;
use lastword_core::spec::Dialect;
use serde_json::Value;

use crate::once::{self, Format, Update};
use crate::rpc::{Message, error_text};
use crate::value::{at, items, joined, line, text};

/// Something to show. Not yet safe to print to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Part of a message.
    Text(String),
    /// The message ended.
    Break,
    /// A tool started, with its title.
    Tool(String),
    /// Output of a tool or of a plain agent.
    Output(String),
    /// A one-line remark.
    Note(String),
}

/// Follows the output of one agent.
#[derive(Clone, Debug)]
pub struct Show {
    dialect: Dialect,
    /// A message was begun and not ended.
    is_open: bool,
    /// The agent streams its messages.
    in_parts: bool,
    /// The item whose parts were shown last.
    part_of: Option<String>,
    /// The replay of a resumed session's history is over.
    is_present: bool,
    /// The start of the current message may be missing, so that it is shown again when it is repeated whole.
    missed_start: bool,
    /// The format of a one-shot agent.
    format: Option<Format>,
}

impl Show {
    /// Returns a follower for an agent of this dialect.
    pub fn new(dialect: Dialect) -> Show {
        Show {
            dialect,
            is_open: false,
            in_parts: false,
            part_of: None,
            is_present: false,
            missed_start: false,
            format: None,
        }
    }

    /// Returns a follower that begins in the middle of the output: in the present of its session, perhaps within a message.
    pub fn midway(dialect: Dialect) -> Show {
        Show { is_present: true, missed_start: true, ..Show::new(dialect) }
    }

    /// Reports whether the message that was shown last may have lost its start.
    pub fn missed_start(&self) -> bool {
        self.missed_start
    }

    /// Returns what to show for a line of the agent.
    pub fn line(&mut self, line: &[u8]) -> Vec<Shown> {
        let shown = match self.dialect {
            Dialect::Plain => return vec![Shown::Output(format!("{}\n", String::from_utf8_lossy(line)))],
            Dialect::Claude => self.claude(line),
            Dialect::Codex => self.codex(line),
            Dialect::Acp => self.acp(line),
            Dialect::Once => self.once(line),
        };
        shown.into_iter().flat_map(|shown| self.between(shown)).collect()
    }

    /// Inserts the missing end of a message before anything else, and drops the end of a message that was not begun.
    fn between(&mut self, shown: Shown) -> Vec<Shown> {
        let is_text = matches!(shown, Shown::Text(_));
        let ends = self.is_open && !is_text && shown != Shown::Break;
        let nothing = shown == Shown::Break && !self.is_open;
        self.is_open = is_text;
        self.missed_start &= is_text || nothing;
        let before = ends.then_some(Shown::Break);
        before.into_iter().chain((!nothing).then_some(shown)).collect()
    }

    fn claude(&mut self, line: &[u8]) -> Vec<Shown> {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        match text(&event, &["type"]) {
            Some("stream_event") => {
                let kind = text(&event, &["event", "type"]);
                self.missed_start &= kind != Some("content_block_start");
                self.in_parts = !self.missed_start;
                match kind {
                    Some("content_block_delta") => part(text(&event, &["event", "delta", "text"])),
                    Some("content_block_stop") => vec![Shown::Break],
                    _ => Vec::new(),
                }
            }
            Some("assistant") => {
                let content = items(&event, &["message", "content"]);
                content.iter().flat_map(|block| self.claude_block(block)).collect()
            }
            Some("user") => items(&event, &["message", "content"])
                .iter()
                .filter(|block| text(block, &["type"]) == Some("tool_result"))
                .flat_map(|block| output(&block["content"]))
                .collect(),
            Some("result") if at(&event, &["is_error"]) == Some(&Value::Bool(true)) => {
                let errors = items(&event, &["errors"]).first().and_then(Value::as_str);
                note(text(&event, &["result"]).filter(|text| !text.is_empty()).or(errors))
            }
            _ => Vec::new(),
        }
    }

    fn claude_block(&mut self, block: &Value) -> Vec<Shown> {
        match text(block, &["type"]) {
            Some("text") if !self.in_parts => self.whole(text(block, &["text"])),
            Some("tool_use") => {
                let what = ["command", "file_path", "pattern", "url", "description"];
                let what = what.iter().find_map(|name| text(block, &["input", name])).unwrap_or_default();
                tool(text(block, &["name"]).unwrap_or("tool"), what)
            }
            _ => Vec::new(),
        }
    }

    fn codex(&mut self, line: &[u8]) -> Vec<Shown> {
        let (method, params) = match Message::read(line) {
            Some(Message::Notice { method, params }) => (method, params),
            Some(Message::Reply { result: Err(error), .. }) => return note(Some(&error_text(&error))),
            _ => return Vec::new(),
        };
        let item = &params["item"];
        match method.as_str() {
            "item/agentMessage/delta" => {
                let item = text(&params, &["itemId"]).filter(|_| !self.missed_start);
                self.part_of = item.map(str::to_owned);
                part(text(&params, &["delta"]))
            }
            "item/commandExecution/outputDelta" => {
                self.part_of = text(&params, &["itemId"]).map(str::to_owned);
                output(&params["delta"])
            }
            "item/started" => match text(item, &["type"]) {
                Some("agentMessage") => {
                    self.missed_start = false;
                    Vec::new()
                }
                Some("commandExecution") => {
                    tool("", &text(item, &["command"]).map(crate::codex::command).unwrap_or_default())
                }
                Some(kind @ ("mcpToolCall" | "dynamicToolCall")) => {
                    tool(kind, text(item, &["tool"]).unwrap_or_default())
                }
                Some(kind @ ("fileChange" | "webSearch")) => tool(kind, ""),
                _ => Vec::new(),
            },
            "item/completed" => {
                let shown = self.part_of.as_deref().is_some_and(|part| text(item, &["id"]) == Some(part));
                match text(item, &["type"]) {
                    Some("agentMessage") if shown => vec![Shown::Break],
                    Some("agentMessage") => self.whole(text(item, &["text"])),
                    Some("commandExecution") if !shown => output(&item["aggregatedOutput"]),
                    _ => Vec::new(),
                }
            }
            "error" => note(text(&params, &["error", "message"])),
            _ => Vec::new(),
        }
    }

    fn acp(&mut self, line: &[u8]) -> Vec<Shown> {
        let params = match Message::read(line) {
            Some(Message::Notice { method, params }) if method == "session/update" => params,
            Some(Message::Reply { result: Err(error), .. }) => return note(Some(&error_text(&error))),
            Some(Message::Reply { id, .. }) => {
                // The second request opens the session. Updates before its reply replay history.
                self.is_present |= id.as_u64() == Some(2);
                return vec![Shown::Break];
            }
            _ => return Vec::new(),
        };
        let update = &params["update"];
        match text(update, &["sessionUpdate"]) {
            _ if !self.is_present => Vec::new(),
            Some("agent_message_chunk") => {
                let name = text(update, &["messageId"]);
                let other = self.part_of.as_deref() != name;
                self.part_of = name.map(str::to_owned);
                let shown = part(text(update, &["content", "text"]));
                if other { [vec![Shown::Break], shown].concat() } else { shown }
            }
            Some("tool_call") => tool("", text(update, &["title"]).unwrap_or("tool")),
            Some("tool_call_update") => match text(update, &["status"]) {
                Some("completed" | "failed") => items(update, &["content"])
                    .iter()
                    .flat_map(|block| output(&block["content"]["text"]))
                    .collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Shows a whole message, apart from the parts before it.
    fn whole(&mut self, text: Option<&str>) -> Vec<Shown> {
        self.missed_start = false;
        [vec![Shown::Break], part(text), vec![Shown::Break]].concat()
    }

    fn once(&mut self, line: &[u8]) -> Vec<Shown> {
        let Some((format, updates)) = once::read(line) else { return Vec::new() };
        if *self.format.get_or_insert(format) != format {
            return Vec::new();
        }
        updates.into_iter().flat_map(|update| self.update(update)).collect()
    }

    fn update(&mut self, update: Update) -> Vec<Shown> {
        match update {
            Update::Message(text) => self.whole(Some(&text)),
            Update::MessagePart(name, text) => {
                let other = self.part_of != name;
                self.part_of = name;
                let shown = part(Some(&text));
                if other { [vec![Shown::Break], shown].concat() } else { shown }
            }
            Update::ToolStarted { title, .. } => tool("", &title),
            // Its start was not reported: show it with its end.
            Update::ToolEnded { id: None, title: Some(title), output, .. } => {
                [tool("", &title), output_text(output)].concat()
            }
            Update::ToolEnded { output, .. } => output_text(output),
            Update::TurnEnded(TurnEnding::Completed, _) => Vec::new(),
            Update::Note(text) | Update::Error(text) | Update::TurnEnded(_, Some(text)) => note(Some(&text)),
            _ => Vec::new(),
        }
    }
}

fn part(text: Option<&str>) -> Vec<Shown> {
    text.filter(|text| !text.is_empty()).map(|text| Shown::Text(text.to_owned())).into_iter().collect()
}

fn tool(name: &str, what: &str) -> Vec<Shown> {
    let parts: Vec<&str> = [name, what].into_iter().filter(|part| !part.is_empty()).collect();
    vec![Shown::Tool(line(&parts.join(": ")))]
}

fn note(text: Option<&str>) -> Vec<Shown> {
    text.map(|text| Shown::Note(line(text))).into_iter().collect()
}

/// Returns the output of a tool: a string, or an array with text parts.
fn output(content: &Value) -> Vec<Shown> {
    output_text(joined(content))
}

fn output_text(output: String) -> Vec<Shown> {
    if output.is_empty() { Vec::new() } else { vec![Shown::Output(output)] }
}
