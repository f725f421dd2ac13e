//! The host: everything a worker does outside the journal, as small traits.
//!
//! - `traits.rs`: [`Clock`], [`Keepers`], [`JobFiles`] and [`JobWorktrees`]; [`Host`] is all four, and the store's `Attempts`.
//! - `local.rs`: [`LocalHost`], this machine: one folder per job, one nursery that starts keepers. `keepers.rs`, `attempts.rs`, `files.rs`
//!   and `worktrees.rs` implement one trait each.
//! - `server.rs`: [`ServerHost`], which runs nothing and asks workers about attempts.
//! - `launch.rs`, `locate.rs`, `watch.rs`, `commands.rs`: what the effects of core mean for a real keeper.
//! - `leases.rs`: until when the trees of a worker's life may run. `Keepers::extend_lease` is called after each renewal.
//! - `keeper_table.rs`, `connection.rs`, `outbox.rs`: the keepers that should be alive, and the one connection to each.
//! - `session.rs`, `goals.rs`: a conversation with an agent.

mod attempts;
mod commands;
mod connection;
mod edit;
mod env;
mod files;
mod gits;
mod goals;
mod keeper_table;
mod keepers;
mod launch;
mod leases;
mod local;
mod locate;
mod outbox;
mod server;
mod session;
mod traits;
mod watch;
mod worktrees;

pub use crate::mailbox::Reports;
pub use local::{LocalHost, now};
pub use server::ServerHost;
pub use traits::{
    BoxFuture, Changes, Clock, Host, JobFiles, JobWorktrees, Keepers, LastWritten, Order, PatchPart,
    PatchPiece,
};
