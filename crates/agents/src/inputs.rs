//! What is to be said to the agent next, of what its job was asked to say.

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use serde::{Deserialize, Serialize};

use crate::written::Written;
use crate::{Goals, Start};

/// The inputs that were written, and whether the first prompt was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inputs {
    prompted: bool,
    written: Written,
}

impl Inputs {
    /// Takes note of a prompt that was written.
    pub(crate) fn prompted(&mut self) {
        self.prompted = true;
    }

    /// Takes note of an input that was written.
    pub(crate) fn wrote(&mut self, input: InputNo) {
        self.written.add(input);
    }

    /// Returns the answers that are still to be written.
    pub(crate) fn answers<'a>(&self, goals: &Goals<'a>) -> impl Iterator<Item = &'a PendingInput> {
        self.written.missing(goals.inputs).filter(|input| input.question.is_some())
    }

    /// Returns the next prompt: the first one of the job, then what waits in line.
    pub(crate) fn prompt<'a>(&self, start: &'a Start, goals: &Goals<'a>) -> Option<(InputNo, &'a str)> {
        if !self.prompted {
            return Some((InputNo(0), &start.prompt));
        }
        self.waiting(goals).next().map(|input| (input.no, input.text.as_str()))
    }

    /// Returns the next input that is meant for the turn under way.
    pub(crate) fn steer<'a>(&self, goals: &Goals<'a>) -> Option<&'a PendingInput> {
        self.waiting(goals).find(|input| input.steer)
    }

    fn waiting<'a>(&self, goals: &Goals<'a>) -> impl Iterator<Item = &'a PendingInput> {
        let empty = |input: &PendingInput| input.eof && input.text.is_empty();
        self.written.missing(goals.inputs).filter(move |input| input.question.is_none() && !empty(input))
    }
}
