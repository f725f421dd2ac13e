//! The keeper's own processes: nursery, guard and shim, each with a single thread.

mod control;
mod guard;
pub(crate) mod input;
mod lease;
mod levels;
mod nursery;
mod output;
mod reply;
mod requests;
mod restore;
mod shim;
mod spawn;
mod stop;

pub use nursery::run;
pub use output::SLACK_BYTES;
