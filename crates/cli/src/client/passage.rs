//! Prints a job's output to our own streams: as it is, rendered as text, without control characters, or as JSON.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_api::Job;
use serde::Serialize;

use super::recording::{Recording, Stream};
use crate::failure::Failure;
use crate::text::clean::{Cleaner, Colours};
use crate::text::modes::Modes;
use crate::text::transcript::Transcript;
use crate::ui::Ui;

/// The longest text in one JSON document. A longer line comes in several.
const JSON_TEXT_BYTES_MAX: usize = 64 << 10;

/// How a job's output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// An agent's output as readable text, between the messages that it was sent and the borders of its turns; without control characters
    /// if we print to a terminal.
    Ours,
    /// The same without those messages and borders, for a program that reads what the agent says.
    Words,
    /// An agent's output as it is; without control characters if we print to a terminal.
    Raw,
    /// The job was given our terminal: every byte as it is.
    Given,
}

/// Bytes of jobs that were shown at a terminal by this command.
static SHOWN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns how many bytes of jobs were shown at a terminal so far. A question that was on the screen before may have been pushed away.
pub(crate) fn shown_bytes() -> u64 {
    SHOWN_BYTES.load(Ordering::Relaxed)
}

/// Copies a job's output to our own stream of the same name: unchanged to a file or a pipe, and to a terminal without control characters other
/// than colours, since the job could manipulate it otherwise. With `--json`, both streams go to our standard output, one document per line.
#[derive(Debug)]
pub(crate) struct Passage {
    stream: Stream,
    /// Renders an agent's output as readable text.
    transcript: Option<Transcript>,
    cleaner: Option<Cleaner>,
    given: Option<GivenTerminal>,
    json: Option<JsonLines>,
}

/// Our terminal, which the job was given. Dropping it undoes what the job changed.
#[derive(Debug, Default)]
struct GivenTerminal(Modes);

impl Drop for GivenTerminal {
    fn drop(&mut self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(self.0.undo().as_bytes()).and_then(|()| out.flush());
    }
}

impl Passage {
    /// Returns a passage to our own stream.
    pub(crate) fn open(ui: &Ui, stream: Stream, terminal: Terminal) -> Passage {
        let style = if stream == Stream::Stdout { ui.out } else { ui.err };
        let colours = if style.on { Colours::Kept } else { Colours::Dropped };
        let (cleaner, given) = match (terminal, stream) {
            _ if ui.json || !stream.is_terminal() => (None, None),
            (Terminal::Given, Stream::Stdout) => (None, Some(GivenTerminal::default())),
            (Terminal::Given, Stream::Stderr) => (None, None),
            _ => (Some(Cleaner::new(colours)), None),
        };
        Passage { stream, transcript: None, cleaner, given, json: None }
    }

    /// Returns a passage for a recording. An agent speaks its protocol on standard output only, which is rendered as readable text unless it is
    /// wanted raw. That text has no colours: commands, paths and titles are among it.
    pub(super) fn of(ui: &Ui, recording: &Recording, terminal: Terminal, job: &Job) -> Passage {
        let mut passage = Passage::open(ui, recording.stream, terminal);
        if terminal != Terminal::Raw && recording.stream == Stream::Stdout {
            passage.transcript = Transcript::of(job);
        }
        if let (Some(_), Some(cleaner)) = (&passage.transcript, &mut passage.cleaner) {
            *cleaner = Cleaner::new(Colours::Dropped);
        }
        passage.json = ui.json.then(|| JsonLines::new(*ui, recording));
        passage
    }

    /// Passes on a piece of output. A piece may end in the middle of a line or a character.
    pub(crate) fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        // Render first: the text of an agent may contain control characters.
        match &mut self.transcript {
            Some(transcript) => {
                let text = transcript.render(bytes);
                self.write(text.as_bytes())
            }
            None => self.write(bytes),
        }
    }

    /// Prints lines of ours between those of an agent.
    pub(super) fn mark(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let is_within_line = self.transcript.as_mut().is_some_and(Transcript::break_line);
        self.write(if is_within_line { b"\n" } else { b"" })?;
        self.write(text.as_bytes())
    }

    /// Prints what is left of an incomplete line.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.json.as_mut().map_or(Ok(()), JsonLines::end)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(json) = &mut self.json {
            return json.write(bytes);
        }
        let cleaned = self.cleaner.as_mut().map(|cleaner| cleaner.clean(bytes));
        let bytes = cleaned.as_ref().map_or(bytes, String::as_bytes);
        if let Some(given) = &mut self.given {
            given.0.follow(bytes);
        }
        if self.cleaner.is_some() {
            SHOWN_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        match self.stream {
            Stream::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes)?;
                Ok(out.flush()?)
            }
            Stream::Stderr => Ok(std::io::stderr().lock().write_all(bytes)?),
        }
    }
}

/// Prints output as JSON: a document for each line.
#[derive(Debug)]
struct JsonLines {
    ui: Ui,
    attempt: u32,
    stream: &'static str,
    line: Vec<u8>,
}

/// A line of a job's output.
#[derive(Serialize)]
struct JsonLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    attempt: u32,
    stream: &'static str,
    /// With its line feed, if it has one.
    text: &'a str,
}

impl JsonLines {
    fn new(ui: Ui, recording: &Recording) -> JsonLines {
        JsonLines { ui, attempt: recording.attempt, stream: recording.stream.name(), line: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            while self.line.len() > JSON_TEXT_BYTES_MAX {
                // Not within a character.
                let is_inner = |at: &usize| self.line[*at] & 0xc0 == 0x80;
                let cut = (1..=JSON_TEXT_BYTES_MAX).rev().find(|at| !is_inner(at));
                let rest = self.line.split_off(cut.unwrap_or(JSON_TEXT_BYTES_MAX));
                self.end()?;
                self.line = rest;
            }
            if part.ends_with(b"\n") {
                self.end()?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.line.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        let (attempt, stream, text) = (self.attempt, self.stream, &String::from_utf8_lossy(&line));
        self.ui.print_json(&JsonLine { kind: "output", attempt, stream, text })
    }
}
