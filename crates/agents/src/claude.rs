//! Claude Code: lines of JSON both ways, one process for many turns.

use lastword_core::InputNo;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};

use crate::Start;
use crate::dialogue::{Speak, Wishes, Writing};

/// What is known of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Claude {}

impl Speak for Claude {
    fn heard(&mut self, _: &Start, _: &[u8]) -> Vec<Signal> {
        Vec::new()
    }

    fn wrote(&mut self, _: &Start, _: &[u8], _: InputNo) -> Option<Signal> {
        None
    }

    fn next(&self, _: &Start, _: &Wishes<'_>) -> Option<Writing> {
        None
    }

    fn is_busy(&self) -> bool {
        false
    }
}
