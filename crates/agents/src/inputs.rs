//! Which inputs were written to the agent, so that none is written twice while it still waits for its delivery.

use std::collections::BTreeSet;

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use serde::{Deserialize, Serialize};

use crate::{Start, Wishes};

/// Inputs that are remembered. An input is delivered as soon as its line is taken, so the last few would do.
const INPUTS_MAX: usize = 256;

/// The inputs that were written, and whether the first prompt was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inputs {
    prompted: bool,
    written: BTreeSet<InputNo>,
}

impl Inputs {
    /// Takes note of a prompt that was written, with the input it carried.
    pub(crate) fn prompted(&mut self) {
        self.prompted = true;
    }

    /// Takes note of an input that was written.
    pub(crate) fn wrote(&mut self, input: InputNo) {
        if input != InputNo(0) {
            self.written.insert(input);
        }
        while self.written.len() > INPUTS_MAX {
            self.written.pop_first();
        }
    }

    /// Reports whether it was written.
    pub(crate) fn has(&self, input: InputNo) -> bool {
        self.written.contains(&input)
    }

    /// Returns the next prompt: the first one of the job, then what waits in line.
    pub(crate) fn prompt<'a>(&self, start: &'a Start, wishes: &Wishes<'a>) -> Option<(InputNo, &'a str)> {
        if !self.prompted {
            return Some((InputNo(0), &start.prompt));
        }
        self.waiting(wishes).next().map(|input| (input.no, input.text.as_str()))
    }

    /// Returns the next input that is meant for the turn under way.
    pub(crate) fn steer<'a>(&self, wishes: &Wishes<'a>) -> Option<&'a PendingInput> {
        self.waiting(wishes).find(|input| input.steer)
    }

    fn waiting<'a>(&self, wishes: &Wishes<'a>) -> impl Iterator<Item = &'a PendingInput> {
        let empty = |input: &PendingInput| input.eof && input.text.is_empty();
        wishes
            .inputs
            .iter()
            .filter(move |input| input.question.is_none() && !self.has(input.no) && !empty(input))
    }
}
