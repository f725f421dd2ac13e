//! What an agent says, as a person reads it: its messages, what its tools are asked and what they give.

use lastword_agents::{LINE_BYTES_MAX, Show, Shown};
use lastword_api::Job;

/// Reads along with an agent, a piece of its output at a time.
#[derive(Debug)]
pub(crate) struct Along {
    show: Show,
    /// The line that is not whole yet.
    line: Vec<u8>,
}

impl Along {
    /// Begins to read along, if the job is an agent's.
    pub(crate) fn with(job: &Job) -> Option<Along> {
        let dialect = job.agent.as_ref()?.dialect.to_core()?;
        Some(Along { show: Show::new(dialect), line: Vec::new() })
    }

    /// Returns what is to be read of a piece of its output. Nothing of it is safe for a terminal.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            if self.line.len() + part.len() <= LINE_BYTES_MAX {
                self.line.extend_from_slice(part);
            }
            // What stands behind the last break is not whole.
            if lines.peek().is_some() {
                let line = std::mem::take(&mut self.line);
                self.show.line(&line).into_iter().for_each(|shown| add(shown, &mut text));
            }
        }
        text
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
