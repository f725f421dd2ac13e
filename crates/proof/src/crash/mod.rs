//! Real crashes: a process that writes is killed with -9 in the middle, and what it was told is compared with what
//! is stored.
//!
//! - [`history`]: the comparison, a pure function.
//! - [`appender`]: what the killed process does, over any journal.
//! - [`child`]: that process, and what it says.
//! - [`stored`]: everything that a journal holds.
//! - [`sqlite`]: the same for SQLite.
//! - [`postgres`]: the server is killed under its clients, or their connections are cut by a [`proxy`].

pub mod appender;
pub mod child;
pub mod history;
pub mod postgres;
pub mod proxy;
pub mod sqlite;
pub mod stored;

use crate::args::Args;

/// Runs `crash STORE [--rounds N] [--seed N] [--bug NAME]`.
pub fn main(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match args.split_first() {
        Some((store, rest)) if store == "sqlite" => sqlite::crash(&Args::new(rest)),
        // What the killed process runs; see `sqlite`.
        Some((store, rest)) if store == "sqlite-child" => sqlite::child(&Args::new(rest)),
        Some((store, rest)) if store == "postgres" => postgres::crash(&Args::new(rest)),
        Some((store, rest)) if store == "postgres-cut" => postgres::cut(&Args::new(rest)),
        _ => Err("crash sqlite|postgres|postgres-cut [--rounds N] [--seed N] [--bug NAME]".into()),
    }
}
