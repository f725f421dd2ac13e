//! The items of a protocol: which are open, and how what is said changes them.

use lastword_core::spec::Dialect;

use super::change::{Change, Kind, Status};
use crate::once::Format;
use crate::value::line;

/// Running tools that are known by their id. The output of any more becomes an item of its own.
pub(super) const TOOLS_MAX: usize = 32;

/// The longest id that is passed on, in bytes.
const ID_BYTES_MAX: usize = 128;

/// An item that can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) n: u64,
    /// The length of its text.
    pub(super) bytes: u64,
}

/// A running tool, known by the hash of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) id: u64,
    pub(super) item: Open,
}

/// Follows the output of an agent that has a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(super) dialect: Dialect,
    /// The agent streams its messages.
    pub(super) in_parts: bool,
    /// The replay of a resumed session's history is over.
    pub(super) is_present: bool,
    /// The start of the current message may be missing, so that it is said again when it is repeated whole.
    pub(super) missed_start: bool,
    /// The format of a one-shot agent.
    pub(super) format: Option<Format>,
    /// The hash of the name of the message whose part was read last.
    pub(super) part_of: Option<u64>,
    pub(super) message: Option<Open>,
    pub(super) reasoning: Option<Open>,
    /// Oldest first.
    pub(super) tools: Vec<Tool>,
    /// The offset after the line that was read last.
    pub(super) end: u64,
    /// The line that begins there is the rest of one that cannot be read.
    pub(super) is_skipping: bool,
    line: Line,
}

/// The line that is being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    begin: u64,
    /// Items that began with it.
    begun: u64,
    changes: Vec<Change>,
}

impl Fold {
    /// Returns a fold that begins with the first line.
    pub(crate) fn new(dialect: Dialect) -> Fold {
        Fold {
            dialect,
            in_parts: false,
            is_present: false,
            missed_start: false,
            format: None,
            part_of: None,
            message: None,
            reasoning: None,
            tools: Vec::new(),
            end: 0,
            is_skipping: false,
            line: Line::default(),
        }
    }

    /// Returns a fold that begins in the present of a session, perhaps within a message.
    pub(crate) fn midway(dialect: Dialect) -> Fold {
        Fold { is_present: true, missed_start: true, ..Fold::new(dialect) }
    }

    /// Reports whether the current message may have lost its start.
    pub(crate) fn missed_start(&self) -> bool {
        self.missed_start
    }

    /// Reports whether the dialect has no protocol.
    pub(crate) fn is_plain(&self) -> bool {
        self.dialect == Dialect::Plain
    }

    /// Reads the line after the last one.
    pub(crate) fn next_line(&mut self, line: &[u8]) -> Vec<Change> {
        self.begin_line((line.len() as u64).saturating_add(1));
        self.read(line);
        std::mem::take(&mut self.line).changes
    }

    /// Records that so many bytes cannot be read, perhaps without the end of their line. The history of a resumed session may have ended
    /// among them.
    pub(super) fn gap(&mut self, bytes: u64, goes_on: bool) -> Vec<Change> {
        self.begin_line(bytes);
        (self.is_present, self.is_skipping) = (true, goes_on);
        self.interrupt();
        let n = self.number();
        self.push(n, Kind::Gap, Status::Completed, 0, String::new());
        std::mem::take(&mut self.line).changes
    }

    fn begin_line(&mut self, bytes: u64) {
        self.line = Line { begin: self.end, ..Line::default() };
        self.end = self.end.saturating_add(bytes);
    }

    /// Adds a part to the message, or begins one.
    pub(super) fn part(&mut self, text: Option<&str>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        self.end_reasoning();
        let mut open = self.message.unwrap_or_else(|| self.begin());
        self.add(&mut open, Kind::Message, Status::Running, text);
        self.message = Some(open);
    }

    /// Ends the message, if there is one.
    pub(super) fn end_message(&mut self) {
        if let Some(mut open) = self.message.take() {
            self.missed_start = false;
            self.add(&mut open, Kind::Message, Status::Completed, "");
        }
    }

    /// Says a whole message, apart from the parts before it.
    pub(super) fn whole(&mut self, text: Option<&str>) {
        self.end_message();
        self.missed_start = false;
        self.part(text);
        self.end_message();
    }

    /// Adds a part to what the agent thinks. The message before it may go on afterwards.
    pub(super) fn think(&mut self, text: Option<&str>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        let mut open = self.reasoning.unwrap_or_else(|| self.begin());
        self.add(&mut open, Kind::Reasoning, Status::Running, text);
        self.reasoning = Some(open);
    }

    /// Ends what the agent thinks.
    pub(super) fn end_reasoning(&mut self) {
        if let Some(mut open) = self.reasoning.take() {
            self.add(&mut open, Kind::Reasoning, Status::Completed, "");
        }
    }

    /// Reports whether the agent thinks at the moment.
    pub(super) fn is_thinking(&self) -> bool {
        self.reasoning.is_some()
    }

    /// Begins the use of a tool.
    pub(super) fn tool(&mut self, id: Option<&str>, title: &str) {
        self.interrupt();
        let item = self.begin();
        self.push(item.n, Kind::Tool, Status::Running, 0, String::new());
        self.name_last(id, Some(title));
        let Some(id) = id.map(hash) else { return };
        self.tools.retain(|tool| tool.id != id);
        self.tools.push(Tool { id, item });
        if self.tools.len() > TOOLS_MAX {
            self.tools.remove(0);
        }
    }

    /// Adds to the output of a running tool.
    pub(super) fn tool_output(&mut self, id: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        self.interrupt();
        match self.tool_index(id) {
            Some(index) => {
                let mut item = self.tools[index].item;
                self.add(&mut item, Kind::Tool, Status::Running, text);
                self.tools[index].item = item;
            }
            None => self.unknown_tool(id, Status::Running, text),
        }
    }

    /// Ends a tool. Its output counts unless parts of it were read before.
    pub(super) fn tool_ended(&mut self, id: Option<&str>, status: Status, text: &str) {
        let known = self.tool_index(id).map(|index| self.tools.remove(index));
        let text = if known.is_some_and(|tool| tool.item.bytes > 0) { "" } else { text };
        if !text.is_empty() {
            self.interrupt();
        }
        match known {
            Some(Tool { mut item, .. }) => self.add(&mut item, Kind::Tool, status, text),
            None if text.is_empty() => {}
            None => self.unknown_tool(id, status, text),
        }
    }

    /// Says a tool whose start was not reported, with its end.
    pub(super) fn whole_tool(&mut self, title: &str, status: Status, text: &str) {
        self.interrupt();
        let n = self.number();
        self.push(n, Kind::Tool, status, 0, text.to_owned());
        self.name_last(None, Some(title));
    }

    /// Says a remark or an error.
    pub(super) fn note(&mut self, text: Option<&str>) {
        let Some(text) = text else { return };
        self.interrupt();
        let n = self.number();
        self.push(n, Kind::Note, Status::Completed, 0, text.to_owned());
    }

    /// Ends what anything else comes after.
    fn interrupt(&mut self) {
        self.end_reasoning();
        self.end_message();
        self.missed_start = false;
    }

    /// Says the output of a tool that is not known to run. It is known from now on if it goes on; without an id it cannot.
    fn unknown_tool(&mut self, id: Option<&str>, status: Status, text: &str) {
        let status = if id.is_none() && status == Status::Running { Status::Completed } else { status };
        let mut item = self.begin();
        self.add(&mut item, Kind::Tool, status, text);
        self.name_last(id, None);
        if let Some(id) = id.filter(|_| status == Status::Running).map(hash) {
            self.tools.push(Tool { id, item });
            if self.tools.len() > TOOLS_MAX {
                self.tools.remove(0);
            }
        }
    }

    fn tool_index(&self, id: Option<&str>) -> Option<usize> {
        let id = hash(id?);
        self.tools.iter().position(|tool| tool.id == id)
    }

    fn begin(&mut self) -> Open {
        Open { n: self.number(), bytes: 0 }
    }

    /// Returns the number of the next item. Each needs a few bytes of its line, so it is less than that of any later line.
    fn number(&mut self) -> u64 {
        let n = self.line.begin.saturating_add(self.line.begun);
        self.line.begun += 1;
        n
    }

    fn add(&mut self, item: &mut Open, kind: Kind, status: Status, text: &str) {
        self.push(item.n, kind, status, item.bytes, text.to_owned());
        item.bytes = item.bytes.saturating_add(text.len() as u64);
    }

    /// Adds a change to those of the line. The end of an item that grew last is not a change of its own.
    fn push(&mut self, n: u64, kind: Kind, status: Status, from: u64, text: String) {
        let text_bytes = from.saturating_add(text.len() as u64);
        if let Some(last) = self.line.changes.last_mut().filter(|last| last.n == n && text.is_empty()) {
            last.status = status;
            return;
        }
        let end = self.end;
        self.line.changes.push(Change {
            n,
            kind,
            id: None,
            title: None,
            status,
            from,
            text,
            text_bytes,
            end,
        });
    }

    fn name_last(&mut self, id: Option<&str>, title: Option<&str>) {
        if let Some(last) = self.line.changes.last_mut() {
            last.id = id.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned);
            last.title = title.map(line);
        }
    }
}

/// Returns the hash of a name (FNV-1a). It is part of cursors, so it must not change between builds.
pub(super) fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
