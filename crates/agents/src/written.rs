//! Which inputs were written, so that each is written once.

use std::collections::BTreeSet;

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use serde::{Deserialize, Serialize};

/// More than can be pending at once, so that no number is dropped while its input is still pending.
const KEPT_MAX: usize = 256;

/// The numbers of the inputs written last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written(BTreeSet<u32>);

impl Written {
    /// Records that an input was written; zero is no input.
    pub(crate) fn add(&mut self, input: InputNo) {
        if input != InputNo(0) {
            self.0.insert(input.0);
        }
        if self.0.len() > KEPT_MAX {
            self.0.pop_first();
        }
    }

    /// Returns the inputs not written yet, oldest first.
    pub(crate) fn missing<'a>(&self, inputs: &'a [PendingInput]) -> impl Iterator<Item = &'a PendingInput> {
        inputs.iter().filter(|input| !self.0.contains(&input.no.0))
    }
}
