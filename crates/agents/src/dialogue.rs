//! A dialogue with an agent in any dialect: splits its output into lines, and turns lines into signals with an offset each.
//!
//! An owner recognises a signal by its offset: when a recording is read again, each signal has the same offset again.

use lastword_core::InputNo;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect as Kind, Terms};
use serde::{Deserialize, Serialize};

use crate::acp::Acp;
use crate::claude::Claude;
use crate::codex::Codex;
use crate::once::Once;
use crate::plain::Plain;
use crate::protocol::{Goals, Outgoing, Protocol};
use crate::start::Start;

/// Longest line that is read, in bytes. Agents write lines of several megabytes; longer ones are skipped.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// A signal and where it was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its offset in the recording. Unique, except that the start of a turn by a line of ours has the offset of the signal before it.
    pub offset: u64,
    /// The signal.
    pub signal: Signal,
}

/// The state of a dialect. It can be stored, so that a recording need not be kept from its first byte.
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

    fn protocol_mut(&mut self) -> &mut dyn Protocol {
        match self {
            Dialect::Acp(acp) => acp,
            Dialect::Claude(claude) => claude,
            Dialect::Codex(codex) => codex,
            Dialect::Once(once) => once,
            Dialect::Plain(plain) => plain,
        }
    }

    fn protocol(&self) -> &dyn Protocol {
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
    /// Where the current line begins.
    offset: u64,
    /// The current line so far.
    line: Vec<u8>,
    /// Bytes of the current line, if it is skipped because it is too long or incomplete.
    skipped: Option<u64>,
}

/// The stored form of a dialogue.
#[derive(Serialize, Deserialize)]
struct Stored {
    offset: u64,
    dialect: Dialect,
}

/// A stored dialogue cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a stored dialogue cannot be read: {0}")]
pub struct Unreadable(serde_json::Error);

impl Dialogue {
    /// Returns a new dialogue.
    pub fn new(start: Start, terms: &Terms) -> Dialogue {
        Dialogue { start, dialect: Dialect::new(terms.dialect), offset: 0, line: Vec::new(), skipped: None }
    }

    /// Returns the dialogue that was stored.
    pub fn restored(start: Start, stored: &[u8]) -> Result<Dialogue, Unreadable> {
        let Stored { offset, dialect } = serde_json::from_slice(stored).map_err(Unreadable)?;
        Ok(Dialogue { start, dialect, offset, line: Vec::new(), skipped: None })
    }

    /// Returns the stored form. A restored dialogue continues at the start of the current line.
    pub fn store(&self) -> Vec<u8> {
        let stored = Stored { offset: self.offset, dialect: self.dialect.clone() };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Returns the offset up to which everything was understood: the start of the current line.
    pub fn understood(&self) -> u64 {
        self.offset
    }

    /// Returns the offset of the next byte of the recording that it needs.
    pub fn next_byte(&self) -> u64 {
        self.offset + self.skipped.unwrap_or(0) + self.line.len() as u64
    }

    /// Reads the next bytes of the agent's output.
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

    /// Skips bytes that are missing from the recording, and the line they belong to.
    pub fn skip(&mut self, bytes: u64) {
        let skipped = self.skipped.unwrap_or(0) + self.line.len() as u64 + bytes;
        self.line = Vec::new();
        self.skipped = Some(skipped);
    }

    /// Records a line that was written to the agent, with the input it carried. It may start a turn.
    pub fn wrote(&mut self, line: &[u8], input: InputNo) -> Option<Heard> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let signal = self.dialect.protocol_mut().line_written(&self.start, line, input)?;
        Some(Heard { offset: self.offset, signal })
    }

    /// Records that the agent exited, after all its output was read, with the last lines of its error output. The signals that follow
    /// have offsets past the last byte.
    pub fn exited(&mut self, exit: Exit, last_lines: &str) -> Vec<Heard> {
        let end = self.next_byte();
        let protocol = self.dialect.protocol_mut();
        let mut signals = protocol.exited(exit);
        signals.extend(protocol.died(&death(exit)).into_iter().map(|signal| with_lines(signal, last_lines)));
        let signals = signals.into_iter();
        signals.zip(end + 1..).map(|(signal, offset)| Heard { offset, signal }).collect()
    }

    /// Returns the next line that is due.
    pub fn next(&self, goals: &Goals<'_>) -> Option<Outgoing> {
        self.dialect.protocol().next_line(&self.start, goals)
    }

    /// Reports whether the agent is working on a turn.
    pub fn is_busy(&self) -> bool {
        self.dialect.protocol().is_busy()
    }

    fn extend(&mut self, bytes: &[u8]) {
        match &mut self.skipped {
            Some(skipped) => *skipped += bytes.len() as u64,
            None if self.line.len() + bytes.len() > LINE_BYTES_MAX => self.skip(bytes.len() as u64),
            None => self.line.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, heard: &mut Vec<Heard>) {
        let begin = self.offset;
        let line = std::mem::take(&mut self.line);
        self.offset += self.skipped.take().unwrap_or(0) + line.len() as u64 + 1;
        let mut signals = self.dialect.protocol_mut().read_line(&self.start, &line);
        if signals.is_empty() {
            // Any line shows that the agent is alive.
            signals.push(Signal::Progress);
        }
        // Each signal needs a byte of its line as its offset.
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

/// Returns how an agent died, as the beginning of a sentence.
fn death(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("the agent exited with status {code}"),
        Exit::Signal(signal) => format!("the agent was killed by signal {signal}"),
    }
}

/// Adds the last lines of the agent's error output to what its death led to.
fn with_lines(mut signal: Signal, lines: &str) -> Signal {
    if let Signal::TurnEnded { error: Some(error), .. } | Signal::Unopened { error } = &mut signal
        && !lines.is_empty()
    {
        *error = format!("{error}; its last words: {lines}");
    }
    signal
}
