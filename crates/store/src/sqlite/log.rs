//! Reading logs.

use lastword_core::event::Stored;
use lastword_core::{Event, Fact, JobId, Seq, Timestamp};
use rusqlite::{Connection, params};

use super::append::key;
use super::failure::failed;
use crate::{Error, Result};

/// Returns the events of a job after `after`. A gap between them is damage.
pub(super) fn load(connection: &Connection, job: JobId, after: Seq) -> Result<Vec<Event>> {
    const SELECT: &str =
        "select seq, at, kind, version, body from events where job = ?1 and seq > ?2 order by seq";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let mut rows = select.query(params![key(job), number(after)]).map_err(failed)?;
    let mut events: Vec<Event> = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let event = event(row, 0)?;
        let expected = events.last().map_or(after, |last| last.seq).next();
        if event.seq != expected {
            return Err(Error::Corrupt(format!("event {expected} of {job} is missing")));
        }
        events.push(event);
    }
    Ok(events)
}

/// Reads an event from five columns, from `first` on.
pub(super) fn event(row: &rusqlite::Row<'_>, first: usize) -> Result<Event> {
    let read = || -> rusqlite::Result<_> {
        let stored =
            Stored { kind: row.get(first + 2)?, version: row.get(first + 3)?, body: row.get(first + 4)? };
        Ok((Seq(row.get(first)?), Timestamp(row.get(first + 1)?), stored))
    };
    let (seq, at, stored) = read().map_err(failed)?;
    let fact = Fact::decode(stored).map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok(Event { seq, at, fact })
}

fn number(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// Returns the place of the newest event; zero if there never was one.
pub(super) fn newest_place(connection: &Connection) -> Result<u64> {
    const NEWEST: &str = "select coalesce(max(place), 0) from events";
    let mut select = connection.prepare_cached(NEWEST).map_err(failed)?;
    select.query_row([], |row| row.get(0)).map_err(failed)
}
