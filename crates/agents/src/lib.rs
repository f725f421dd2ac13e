//! Protocols of coding agents: turns an agent's output into core's signals, and an owner's goals into lines for the agent. Pure.
//!
//! A dialect is a state machine with two inputs: lines that the agent wrote, and lines that were written to it. The next line to write
//! is derived from the state and the goals, so a dialogue rebuilt from a recording of both continues where the old one stopped, without
//! repeating or losing anything.
//!
//! * `dialogue`: lines and offsets, in any dialect. What an engine holds.
//! * `protocol`: what every dialect implements; `claude`, `codex`, `acp`, `once`, `plain`: the dialects.
//! * `rpc`, `request`, `ask`, `permission`, `inputs`, `turn`, `tokens`: what dialects have in common.
//! * `transcript`: what an agent says and does as items; `show`: the same as text for people.
//! * `start`, `definition`, `rules`: how an agent is started, the agents known by name, and which rules each can have.
//! * `prices`: what the tokens of a model cost.
//!
//! Tests: `tests/`, over recorded transcripts, and `fuzz/`.

mod acp;
mod ask;
mod claude;
mod codex;
mod definition;
mod dialogue;
mod inputs;
mod once;
mod permission;
mod plain;
mod prices;
mod protocol;
mod request;
mod rpc;
mod rules;
mod show;
mod start;
mod tokens;
mod transcript;
mod turn;
mod value;
mod written;

pub use definition::{BadDefinition, Chosen, Definition, Definitions};
pub use dialogue::{Dialogue, Heard, LINE_BYTES_MAX, Unreadable};
pub use permission::ToolUse;
pub use prices::{BadPrices, PriceTable, price_of};
pub use protocol::{Goals, Outgoing};
pub use show::{Show, Shown};
pub use start::{Start, with_variables};
pub use transcript::{BadPlace, Change, Kind, PART_BYTES_MAX, Place, Status, Transcript};
