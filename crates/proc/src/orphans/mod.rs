//! Orphans of other tools: agents, MCP servers and commands that agents ran, whose parents are gone.
//!
//! A scan only lists them, and says of each whether it may be intentional. An orphan is ended only on request, by identity, with its
//! descendants. Keepers and their trees are never listed: they have an owner.

mod command;
mod end;
mod facts;
mod judge;
mod known;
mod scan;
mod snapshot;
#[cfg(test)]
mod tests;

pub use end::{Ended, end};
pub use judge::Kind;
pub use scan::{Orphan, scan};
