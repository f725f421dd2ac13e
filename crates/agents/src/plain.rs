//! An agent that is not spoken to: what it writes is kept and shown, and its exit status is its result.

use lastword_core::InputNo;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};

use crate::Start;
use crate::dialogue::{Goals, Outgoing, Speak};

/// What is known of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plain {}

impl Speak for Plain {
    fn heard(&mut self, _: &Start, _: &[u8]) -> Vec<Signal> {
        Vec::new()
    }

    fn wrote(&mut self, _: &Start, _: &[u8], _: InputNo) -> Option<Signal> {
        None
    }

    fn next(&self, _: &Start, _: &Goals<'_>) -> Option<Outgoing> {
        None
    }

    fn is_busy(&self) -> bool {
        false
    }
}
