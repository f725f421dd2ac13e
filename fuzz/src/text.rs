//! Text as the command line reads and cleans it, without what asks for the time or the zone.

#[path = "../../crates/cli/src/text/clean.rs"]
pub(crate) mod clean;
#[path = "../../crates/cli/src/text/duration.rs"]
pub(crate) mod duration;
#[path = "../../crates/cli/src/text/limit.rs"]
pub(crate) mod limit;
#[path = "../../crates/cli/src/text/sgr.rs"]
mod sgr;
#[path = "../../crates/cli/src/text/similar.rs"]
pub(crate) mod similar;
#[path = "../../crates/cli/src/text/size.rs"]
pub(crate) mod size;
