//! A dialogue with an agent, whatever its dialect: bytes become lines, lines become signals, each with an offset of its own.
//!
//! The offset of a signal is what an owner knows it by: one that is heard again, because a recording is read again, has the same.

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use lastword_core::spec::Dialect as Kind;
use serde::{Deserialize, Serialize};

use crate::acp::Acp;
use crate::claude::Claude;
use crate::codex::Codex;
use crate::once::Once;
use crate::plain::Plain;
use crate::{Start, Terms};

/// Bytes of one line that are understood. Agents write lines of some megabytes; a longer one is passed over.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Something an agent said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its place in the recording: no two have the same, but for the beginning of a turn, which moves nothing.
    pub offset: u64,
    /// What.
    pub signal: Signal,
}

/// What is wanted of an agent just now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Goals<'a> {
    /// What is to be said to it and was not delivered yet, the oldest first.
    pub inputs: &'a [PendingInput],
    /// Its turn is to end.
    pub interrupt: bool,
    /// No turn is to begin any more.
    pub stop: bool,
}

/// A line to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Without its line break.
    pub line: String,
    /// The input it carries; zero, if it carries none.
    pub input: InputNo,
}

impl Outgoing {
    pub(crate) fn bare(line: impl ToString) -> Option<Outgoing> {
        Some(Outgoing { line: line.to_string(), input: InputNo(0) })
    }

    pub(crate) fn with_input(input: InputNo, line: impl ToString) -> Option<Outgoing> {
        Some(Outgoing { line: line.to_string(), input })
    }
}

/// What every dialect can do.
pub(crate) trait Speak {
    /// Takes a line that the agent wrote, and says what it means. What is not understood means nothing, and is never fatal.
    fn heard(&mut self, start: &Start, line: &[u8]) -> Vec<Signal>;

    /// Takes note of a line that was written to the agent, with the input it carried. A turn may begin with it; nothing else is said.
    fn wrote(&mut self, start: &Start, line: &[u8], input: InputNo) -> Option<Signal>;

    /// Returns the next line that is due.
    fn next(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing>;

    /// Reports whether the agent works on a turn.
    fn is_busy(&self) -> bool;

    /// Takes note of how the agent exited, after its last line. To most dialects that means nothing.
    fn exited(&mut self, _: Exit) -> Vec<Signal> {
        Vec::new()
    }
}

/// The state of a dialect. It can be stored, so that a recording need not be kept from its first byte on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Dialect {
    Acp(Acp),
    Claude(Claude),
    Codex(Codex),
    Once(Once),
    Plain(Plain),
}

impl Dialect {
    fn new(kind: Kind) -> Dialect {
        match kind {
            Kind::Acp => Dialect::Acp(Acp::default()),
            Kind::Claude => Dialect::Claude(Claude::default()),
            Kind::Codex => Dialect::Codex(Codex::default()),
            Kind::Once => Dialect::Once(Once::default()),
            Kind::Plain => Dialect::Plain(Plain::default()),
        }
    }

    fn speak(&mut self) -> &mut dyn Speak {
        match self {
            Dialect::Acp(acp) => acp,
            Dialect::Claude(claude) => claude,
            Dialect::Codex(codex) => codex,
            Dialect::Once(once) => once,
            Dialect::Plain(plain) => plain,
        }
    }

    fn as_speak(&self) -> &dyn Speak {
        match self {
            Dialect::Acp(acp) => acp,
            Dialect::Claude(claude) => claude,
            Dialect::Codex(codex) => codex,
            Dialect::Once(once) => once,
            Dialect::Plain(plain) => plain,
        }
    }
}

/// A dialogue with one agent.
#[derive(Clone, Debug)]
pub struct Dialogue {
    start: Start,
    dialect: Dialect,
    /// Where the line begins that is being read.
    offset: u64,
    /// What was read of it.
    line: Vec<u8>,
    /// It is too long, or a part of it is missing: its bytes are counted here, and it is passed over.
    passed: Option<u64>,
}

/// What is stored of a dialogue.
#[derive(Serialize, Deserialize)]
struct Stored {
    offset: u64,
    dialect: Dialect,
}

/// A stored dialogue does not read.
#[derive(Debug, thiserror::Error)]
#[error("a stored dialogue does not read: {0}")]
pub struct Unreadable(serde_json::Error);

impl Dialogue {
    /// Returns a dialogue in which nothing was said yet.
    pub fn new(start: Start, terms: &Terms) -> Dialogue {
        Dialogue { start, dialect: Dialect::new(terms.dialect), offset: 0, line: Vec::new(), passed: None }
    }

    /// Returns the dialogue that was stored, as it was then.
    pub fn restored(start: Start, stored: &[u8]) -> Result<Dialogue, Unreadable> {
        let Stored { offset, dialect } = serde_json::from_slice(stored).map_err(Unreadable)?;
        Ok(Dialogue { start, dialect, offset, line: Vec::new(), passed: None })
    }

    /// Returns what is to be stored of it. It goes on with the line that is being read.
    pub fn store(&self) -> Vec<u8> {
        let stored = Stored { offset: self.offset, dialect: self.dialect.clone() };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Returns where the line begins that is being read: everything before is understood.
    pub fn understood(&self) -> u64 {
        self.offset
    }

    /// Returns the next byte of the recording that it needs.
    pub fn next_byte(&self) -> u64 {
        self.offset + self.passed.unwrap_or(0) + self.line.len() as u64
    }

    /// Reads on in what the agent wrote.
    pub fn read(&mut self, mut bytes: &[u8]) -> Vec<Heard> {
        let mut heard = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            self.end_line(&mut heard);
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
        heard
    }

    /// Takes note that bytes of the recording are missing: the line they are in cannot be understood.
    pub fn skip(&mut self, bytes: u64) {
        let passed = self.passed.unwrap_or(0) + self.line.len() as u64 + bytes;
        self.line = Vec::new();
        self.passed = Some(passed);
    }

    /// Takes note that a line was written, with the input it carried. Says that a turn begins, if it does.
    pub fn wrote(&mut self, line: &[u8], input: InputNo) -> Option<Heard> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let signal = self.dialect.speak().wrote(&self.start, line, input)?;
        Some(Heard { offset: self.offset, signal })
    }

    /// Takes note that the agent exited, once all that it wrote was read. Says what follows from that, which is behind its last byte.
    pub fn exited(&mut self, exit: Exit) -> Vec<Heard> {
        let end = self.next_byte();
        let signals = self.dialect.speak().exited(exit).into_iter();
        signals.zip(end + 1..).map(|(signal, offset)| Heard { offset, signal }).collect()
    }

    /// Returns the next line that is due.
    pub fn next(&self, goals: &Goals<'_>) -> Option<Outgoing> {
        self.dialect.as_speak().next(&self.start, goals)
    }

    /// Reports whether the agent works on a turn.
    pub fn is_busy(&self) -> bool {
        self.dialect.as_speak().is_busy()
    }

    fn extend(&mut self, bytes: &[u8]) {
        match &mut self.passed {
            Some(passed) => *passed += bytes.len() as u64,
            None if self.line.len() + bytes.len() > LINE_BYTES_MAX => self.skip(bytes.len() as u64),
            None => self.line.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, heard: &mut Vec<Heard>) {
        let begin = self.offset;
        let line = std::mem::take(&mut self.line);
        self.offset += self.passed.take().unwrap_or(0) + line.len() as u64 + 1;
        let mut signals = self.dialect.speak().heard(&self.start, &line);
        if signals.is_empty() {
            // It lives and says something, whatever it is.
            signals.push(Signal::Progress);
        }
        // Each byte of a line is an offset, and no line says more than it has bytes.
        let room = usize::try_from(self.offset - begin).unwrap_or(usize::MAX);
        signals.truncate(room);
        let last = signals.len() as u64 - 1;
        let placed = signals.into_iter().enumerate().map(|(index, signal)| {
            let index = index as u64;
            let offset = if index == last { self.offset } else { begin + 1 + index };
            Heard { offset, signal }
        });
        heard.extend(placed);
    }
}
