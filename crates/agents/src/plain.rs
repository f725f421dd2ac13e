//! A plain program: its output is recorded and shown, and its exit status is its result.

use lastword_core::InputNo;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};

use crate::protocol::{Goals, Outgoing, Protocol};
use crate::start::Start;

/// A plain program has no state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plain {}

impl Protocol for Plain {
    fn read_line(&mut self, _: &Start, _: &[u8]) -> Vec<Signal> {
        Vec::new()
    }

    fn line_written(&mut self, _: &Start, _: &[u8], _: InputNo) -> Option<Signal> {
        None
    }

    fn next_line(&self, _: &Start, _: &Goals<'_>) -> Option<Outgoing> {
        None
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn died(&mut self, _: &str) -> Vec<Signal> {
        Vec::new()
    }
}
