//! Which inputs were written: each is said once, however often it is asked for.

use std::collections::BTreeSet;

use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use serde::{Deserialize, Serialize};

/// More than may wait at once, so that none is forgotten while it may still be asked for.
const KEPT_MAX: usize = 256;

/// The numbers of the inputs that were written lately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written(BTreeSet<u32>);

impl Written {
    /// Takes note that an input was written. Zero is none.
    pub(crate) fn add(&mut self, input: InputNo) {
        if input != InputNo(0) {
            self.0.insert(input.0);
        }
        if self.0.len() > KEPT_MAX {
            self.0.pop_first();
        }
    }

    /// Returns the inputs that are still to be written, the oldest first.
    pub(crate) fn missing<'a>(&self, inputs: &'a [PendingInput]) -> impl Iterator<Item = &'a PendingInput> {
        inputs.iter().filter(|input| !self.0.contains(&input.no.0))
    }
}
