//! What an agent says, for people to read along: text as it comes, tools with what they gave, and what went wrong.
//!
//! A message that comes in parts is shown in parts, and not again when it is whole.

use lastword_core::event::TurnEnding;
use lastword_core::spec::Dialect;
use serde_json::Value;

use crate::once::{self, Shape, Word};
use crate::rpc::{Message, words};
use crate::value::{at, items, line, text};

/// Something to show. Nothing of it is safe for a terminal yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Part of a message.
    Text(String),
    /// The message is over.
    Break,
    /// A tool begins: what it does, in a line.
    Tool(String),
    /// What a tool gave, or a plain agent wrote.
    Output(String),
    /// Something beside the conversation, in a line.
    Note(String),
}

/// Reads along with one agent.
#[derive(Clone, Debug)]
pub struct Show {
    dialect: Dialect,
    /// A message is being shown.
    is_open: bool,
    /// The agent sends messages in parts.
    in_parts: bool,
    /// The item whose parts were shown last.
    part_of: Option<String>,
    /// What the agent says is no history any more.
    is_present: bool,
    /// In which shape it speaks, where there are several.
    shape: Option<Shape>,
}

impl Show {
    /// Begins to read along.
    pub fn new(dialect: Dialect) -> Show {
        Show { dialect, is_open: false, in_parts: false, part_of: None, is_present: false, shape: None }
    }

    /// Returns what a line of the agent shows.
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

    /// Ends a message before anything else is shown, and ends none that was not begun.
    fn between(&mut self, shown: Shown) -> Vec<Shown> {
        let is_text = matches!(shown, Shown::Text(_));
        let ends = self.is_open && !is_text && shown != Shown::Break;
        let nothing = shown == Shown::Break && !self.is_open;
        self.is_open = is_text;
        let before = ends.then_some(Shown::Break);
        before.into_iter().chain((!nothing).then_some(shown)).collect()
    }

    fn claude(&mut self, line: &[u8]) -> Vec<Shown> {
        let Ok(said) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        match text(&said, &["type"]) {
            Some("stream_event") => {
                self.in_parts = true;
                match text(&said, &["event", "type"]) {
                    Some("content_block_delta") => part(text(&said, &["event", "delta", "text"])),
                    Some("content_block_stop") => vec![Shown::Break],
                    _ => Vec::new(),
                }
            }
            Some("assistant") => {
                let content = items(&said, &["message", "content"]);
                content.iter().flat_map(|block| self.claude_block(block)).collect()
            }
            Some("user") => items(&said, &["message", "content"])
                .iter()
                .filter(|block| text(block, &["type"]) == Some("tool_result"))
                .flat_map(|block| output(&block["content"]))
                .collect(),
            Some("result") if at(&said, &["is_error"]) == Some(&Value::Bool(true)) => {
                let errors = items(&said, &["errors"]).first().and_then(Value::as_str);
                note(text(&said, &["result"]).filter(|words| !words.is_empty()).or(errors))
            }
            _ => Vec::new(),
        }
    }

    fn claude_block(&self, block: &Value) -> Vec<Shown> {
        match text(block, &["type"]) {
            Some("text") if !self.in_parts => [part(text(block, &["text"])), vec![Shown::Break]].concat(),
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
            Some(Message::Reply { result: Err(error), .. }) => return note(Some(&words(&error))),
            _ => return Vec::new(),
        };
        let item = &params["item"];
        match method.as_str() {
            "item/agentMessage/delta" => {
                self.part_of = text(&params, &["itemId"]).map(str::to_owned);
                part(text(&params, &["delta"]))
            }
            "item/commandExecution/outputDelta" => {
                self.part_of = text(&params, &["itemId"]).map(str::to_owned);
                output(&params["delta"])
            }
            "item/started" => match text(item, &["type"]) {
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
                    Some("agentMessage") => [part(text(item, &["text"])), vec![Shown::Break]].concat(),
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
            Some(Message::Reply { result: Err(error), .. }) => return note(Some(&words(&error))),
            Some(Message::Reply { id, .. }) => {
                // The second thing it is asked for is its session; what it says before the answer was said before.
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
                let said = part(text(update, &["content", "text"]));
                if other { [vec![Shown::Break], said].concat() } else { said }
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

    fn once(&mut self, line: &[u8]) -> Vec<Shown> {
        let Some((shape, words)) = once::read(line) else { return Vec::new() };
        if *self.shape.get_or_insert(shape) != shape {
            return Vec::new();
        }
        words.into_iter().flat_map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: Word) -> Vec<Shown> {
        match word {
            Word::Message(said) => [part(Some(&said)), vec![Shown::Break]].concat(),
            Word::Part(name, said) => {
                let other = self.part_of != name;
                self.part_of = name;
                let said = part(Some(&said));
                if other { [vec![Shown::Break], said].concat() } else { said }
            }
            Word::Tool { title, .. } => tool("", &title),
            // What was not seen to begin is shown with its end.
            Word::ToolDone { id: None, title: Some(title), output, .. } => {
                [tool("", &title), given(output)].concat()
            }
            Word::ToolDone { output, .. } => given(output),
            Word::Ended(TurnEnding::Completed, _) => Vec::new(),
            Word::Note(said) | Word::Wrong(said) | Word::Ended(_, Some(said)) => note(Some(&said)),
            _ => Vec::new(),
        }
    }
}

fn part(said: Option<&str>) -> Vec<Shown> {
    said.filter(|said| !said.is_empty()).map(|said| Shown::Text(said.to_owned())).into_iter().collect()
}

fn tool(name: &str, what: &str) -> Vec<Shown> {
    let words: Vec<&str> = [name, what].into_iter().filter(|word| !word.is_empty()).collect();
    vec![Shown::Tool(line(&words.join(": ")))]
}

fn note(said: Option<&str>) -> Vec<Shown> {
    said.map(|said| Shown::Note(line(said))).into_iter().collect()
}

/// Returns what a tool gave: a text, or a list of parts of which some are texts.
fn output(content: &Value) -> Vec<Shown> {
    given(joined(content))
}

fn given(output: String) -> Vec<Shown> {
    if output.is_empty() { Vec::new() } else { vec![Shown::Output(output)] }
}

/// Returns a text, or the texts of a list of parts, as one.
pub(crate) fn joined(content: &Value) -> String {
    let texts = items(content, &[]).iter().filter_map(|block| text(block, &["text"]));
    content.as_str().into_iter().chain(texts).collect()
}
