//! Which pending input to write to the agent next.

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use serde::{Deserialize, Serialize};

use crate::protocol::Goals;
use crate::start::Start;
use crate::turn::Turn;
use crate::written::Written;

/// The inputs written so far, and whether the job's own prompt was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inputs {
    prompted: bool,
    written: Written,
}

impl Inputs {
    /// Records that a prompt was written.
    pub(crate) fn prompted(&mut self) {
        self.prompted = true;
    }

    /// Records that an input was written.
    pub(crate) fn wrote(&mut self, input: InputNo) {
        self.written.add(input);
    }

    /// Returns the answers not written yet.
    pub(crate) fn answers<'a>(&self, goals: &Goals<'a>) -> impl Iterator<Item = &'a PendingInput> {
        self.written.missing(goals.inputs).filter(|input| input.question.is_some())
    }

    /// Returns the next prompt: the job's own, then the pending inputs in order.
    pub(crate) fn prompt<'a>(&self, start: &'a Start, goals: &Goals<'a>) -> Option<(InputNo, &'a str)> {
        if !self.prompted {
            return Some((InputNo(0), &start.prompt));
        }
        self.waiting(goals).next().map(|input| (input.no, input.text.as_str()))
    }

    /// Returns the next prompt, if one may be written now. An agent that went idle may still end its turn, so that only an input that the
    /// owner lets begin another turn is one.
    pub(crate) fn prompt_of<'a>(
        &self,
        turn: &Turn,
        start: &'a Start,
        goals: &Goals<'a>,
    ) -> Option<(InputNo, &'a str)> {
        if turn.is_inactive() {
            let begins = self.waiting(goals).find(|input| !input.steer);
            return begins.map(|input| (input.no, input.text.as_str()));
        }
        self.prompt(start, goals)
    }

    /// Returns the next input meant for the active turn.
    pub(crate) fn steer<'a>(&self, goals: &Goals<'a>) -> Option<&'a PendingInput> {
        self.waiting(goals).find(|input| input.steer)
    }

    fn waiting<'a>(&self, goals: &Goals<'a>) -> impl Iterator<Item = &'a PendingInput> {
        let empty = |input: &PendingInput| input.eof && input.text.is_empty();
        self.written.missing(goals.inputs).filter(move |input| input.question.is_none() && !empty(input))
    }
}
