//! Real crashes: a process that writes is killed with -9 in the middle, and what it was told is compared with what
//! is stored.
//!
//! - [`history`]: the comparison, a pure function.
//! - [`appender`]: what the killed process does, over any journal.
//! - [`child`]: that process, and what it says.
//! - [`sqlite`]: the same for SQLite.
//! - [`postgres`]: the server is killed under its clients, or their connections are cut by a [`proxy`].

pub mod appender;
pub mod child;
pub mod history;
pub mod postgres;
pub mod proxy;
pub mod sqlite;

use std::collections::BTreeMap;

use lastword_core::JobId;
use lastword_store::{Catalog, Feed, Filter, Journal};

use crate::args::Args;
use history::Log;

/// Rows and events read at once.
const PAGE: u32 = 10_000;

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

/// Reads everything a journal holds: the events by the feed, which must have them all, and every row.
pub async fn stored(journal: &(impl Journal + Catalog)) -> lastword_store::Result<BTreeMap<JobId, Log>> {
    let mut logs: BTreeMap<JobId, Log> = BTreeMap::new();
    let mut after = None;
    loop {
        let Feed { events, next } = journal.read(after, PAGE).await?;
        if events.is_empty() {
            break;
        }
        events.into_iter().for_each(|(job, event)| logs.entry(job).or_default().events.push(event));
        after = next;
    }
    let mut before = None;
    loop {
        let rows = journal.rows(Filter::default(), before, PAGE).await?;
        let Some(last) = rows.last() else { break };
        before = Some(last.job);
        for row in rows {
            let log = logs.entry(row.job).or_default();
            log.row = Some(row);
        }
    }
    Ok(logs)
}
