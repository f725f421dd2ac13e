//! Renders an agent's output as readable text: its messages, its tool calls and their results.

use lastword_agents::{LINE_BYTES_MAX, Show, Shown};
use lastword_api::Job;

/// Renders an agent's output piece by piece.
#[derive(Debug)]
pub(crate) struct Transcript {
    show: Show,
    /// The incomplete last line.
    line: Vec<u8>,
    /// The text so far does not end with a line.
    is_within_line: bool,
}

impl Transcript {
    /// Starts a transcript; `None` if the job is not an agent.
    pub(crate) fn of(job: &Job) -> Option<Transcript> {
        let dialect = job.agent.as_ref()?.dialect.to_core()?;
        Some(Transcript { show: Show::new(dialect), line: Vec::new(), is_within_line: false })
    }

    /// Starts a transcript in the middle of the output, for its last lines; `None` if the job is not an agent.
    pub(crate) fn midway(job: &Job) -> Option<Transcript> {
        let dialect = job.agent.as_ref()?.dialect.to_core()?;
        Some(Transcript { show: Show::midway(dialect), line: Vec::new(), is_within_line: false })
    }

    /// Renders a piece of output. The result is not yet safe for a terminal.
    pub(crate) fn render(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            if self.line.len() + part.len() <= LINE_BYTES_MAX {
                self.line.extend_from_slice(part);
            }
            // The part after the last line feed is incomplete.
            if lines.peek().is_some() {
                let line = std::mem::take(&mut self.line);
                self.show.line(&line).into_iter().for_each(|shown| add(shown, &mut text));
            }
        }
        if !text.is_empty() {
            self.is_within_line = !text.ends_with('\n');
        }
        text
    }

    /// Begins a new line; reports whether the text is within one, so that a line feed is needed.
    pub(crate) fn break_line(&mut self) -> bool {
        std::mem::take(&mut self.is_within_line)
    }
}

fn add(shown: Shown, text: &mut String) {
    match shown {
        Shown::Text(part) => text.push_str(&part),
        Shown::Break => text.push('\n'),
        Shown::Tool(line) => text.push_str(&format!("> {line}\n")),
        Shown::Note(line) => text.push_str(&format!("! {line}\n")),
        Shown::Output(output) => {
            text.push_str(&output);
            if !output.ends_with('\n') {
                text.push('\n');
            }
        }
    }
}
