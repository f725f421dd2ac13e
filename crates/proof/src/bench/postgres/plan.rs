//! What the parts of this bench share: how long each runs, and how a journal is opened for it.

use std::time::Duration;

use lastword_store::postgres::{Options, Postgres};

use crate::args::Args;
use crate::pg::{Server, options};

/// Connections that write, on both sides.
pub(super) const WRITERS: usize = 2;

/// Sizes of batches that are compared.
pub(super) const BATCHES: [usize; 3] = [10, 100, 500];

/// What `--only` may name.
pub(super) const PARTS: [&str; 10] =
    ["append", "life", "slow", "wake", "tail", "stored", "cpu", "snapshot", "queues", "pickup"];

pub(super) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How a run was asked for.
pub(super) struct Plan<'a> {
    pub(super) args: &'a Args<'a>,
    pub(super) rounds: usize,
    pub(super) seconds: u64,
}

impl Plan<'_> {
    /// Reports whether this part shall run.
    pub(super) fn wants(&self, name: &str) -> bool {
        debug_assert!(PARTS.contains(&name), "{name} is no part");
        self.args.text("--only").is_none_or(|only| only == name)
    }

    /// Returns how long one side of a round takes.
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// Opens a journal with the writers of this bench.
pub(super) async fn open(server: &Server, database: &str, batch_max: usize, wake: bool) -> Outcome<Postgres> {
    let options = Options { writers: WRITERS, batch_max, wake, ..options() };
    Ok(Postgres::open(&server.url(database), options).await?)
}
