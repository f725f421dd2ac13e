//! An agent's output as people read it: text as it streams, tools with their output, and errors. Made from the items of its transcript.

use lastword_core::spec::Dialect;

use crate::transcript::{Change, Fold, Kind, Status};
use crate::value::line;

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

impl Shown {
    /// Returns what to show for a change of an item. What an agent thinks is not shown.
    pub fn of(change: Change) -> Vec<Shown> {
        let text = Some(change.text).filter(|text| !text.is_empty());
        match change.kind {
            Kind::Message => {
                let ends = change.status != Status::Running;
                text.map(Shown::Text).into_iter().chain(ends.then_some(Shown::Break)).collect()
            }
            Kind::Tool => change.title.map(Shown::Tool).into_iter().chain(text.map(Shown::Output)).collect(),
            Kind::Note => vec![Shown::Note(line(&text.unwrap_or_default()))],
            Kind::Output => text.map(Shown::Output).into_iter().collect(),
            Kind::Reasoning | Kind::Gap => Vec::new(),
        }
    }
}

/// Follows the output of one agent. Boxed, because futures hold it.
#[derive(Clone, Debug)]
pub struct Show(Box<Fold>);

impl Show {
    /// Returns a follower for an agent of this dialect.
    pub fn new(dialect: Dialect) -> Show {
        Show(Box::new(Fold::new(dialect)))
    }

    /// Returns a follower that begins in the middle of the output: in the present of its session, perhaps within a message.
    pub fn midway(dialect: Dialect) -> Show {
        Show(Box::new(Fold::midway(dialect)))
    }

    /// Reports whether the message that was shown last may have lost its start.
    pub fn missed_start(&self) -> bool {
        self.0.missed_start()
    }

    /// Returns what to show for a line of the agent.
    pub fn line(&mut self, line: &[u8]) -> Vec<Shown> {
        if self.0.is_plain() {
            return vec![Shown::Output(format!("{}\n", String::from_utf8_lossy(line)))];
        }
        self.0.next_line(line).into_iter().flat_map(Shown::of).collect()
    }
}
