//! The trait that every dialect implements, with what goes in and comes out of it.

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;

use crate::start::Start;

/// What the owner wants of an agent at present.
#[derive(Clone, Copy, Debug, Default)]
pub struct Goals<'a> {
    /// Inputs not delivered yet, oldest first.
    pub inputs: &'a [PendingInput],
    /// The active turn is to end.
    pub interrupt: bool,
    /// No further turn may begin.
    pub stop: bool,
}

/// A line to write to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The line, without its line break.
    pub line: String,
    /// The input it carries; zero if it carries none.
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

/// What every dialect implements.
pub(crate) trait Protocol {
    /// Reads a line that the agent wrote. A line that is not understood yields no signal; it is never fatal.
    fn read_line(&mut self, start: &Start, line: &[u8]) -> Vec<Signal>;

    /// Records a line that was written to the agent, with the input it carried. The only signal it can yield is the start of a turn.
    fn line_written(&mut self, start: &Start, line: &[u8], input: InputNo) -> Option<Signal>;

    /// Returns the next line that is due.
    fn next_line(&self, start: &Start, goals: &Goals<'_>) -> Option<Outgoing>;

    /// Reports whether the agent is working on a turn.
    fn is_busy(&self) -> bool;

    /// Records how the agent exited, after its last line. Most dialects ignore it.
    fn exited(&mut self, _: Exit) -> Vec<Signal> {
        Vec::new()
    }

    /// Records that the agent is gone, after what its exit means. `error` says how, as the beginning of a sentence.
    fn died(&mut self, error: &str) -> Vec<Signal>;
}
