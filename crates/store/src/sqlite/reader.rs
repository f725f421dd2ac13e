//! Reading: a few read-only connections, each on a snapshot of its own, so that no read waits for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::event::Stored;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Event, Fact, JobId, Seq, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::Semaphore;

use super::append::{conversation, holder, job_id, key};
use super::{failed, open};
use crate::memory::bad_cursor;
use crate::{Cursor, Error, Filter, Page, Read, Result};

/// Reads at the same time. They are short and mostly of what is in memory; more would only share the same cores.
const READERS_MAX: usize = 4;

/// Connections for reading, opened as they are needed.
#[derive(Debug)]
pub(super) struct Pool {
    file: PathBuf,
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Pool {
    pub(super) fn new(file: PathBuf) -> Pool {
        Pool { file, places: Arc::new(Semaphore::new(READERS_MAX)), idle: Arc::default() }
    }

    /// Runs a read on a thread that may block.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopped = || Error::Unavailable("the readers have stopped".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| stopped())?;
        let (file, idle) = (self.file.clone(), Arc::clone(&self.idle));
        let read = tokio::task::spawn_blocking(move || {
            let waiting = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match waiting {
                Some(connection) => connection,
                None => open::connect(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            };
            let answer = read(&connection);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            drop(place);
            answer
        });
        read.await.map_err(|_| stopped())?
    }
}

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

/// The columns of a row, in the order in which `job_row` reads them.
macro_rules! columns {
    () => {
        "job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch, outcome, \
         least_reader, provider, reference, submitted_at, updated_at, summary"
    };
}

pub(super) use columns;

/// Reads rows or the feed.
pub(super) fn read(connection: &Connection, read: &Read) -> Result<Page> {
    match read {
        Read::Row(job) => {
            const SELECT: &str = concat!("select ", columns!(), " from jobs where job = ?1");
            let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
            let row = select.query_row([key(*job)], |row| Ok(job_row(row))).optional().map_err(failed)?;
            Ok(Page::Rows(row.transpose()?.into_iter().collect()))
        }
        Read::Rows { filter, before, limit } => rows(connection, filter, *before, *limit),
        Read::Feed { after, limit } => feed(connection, after.as_ref(), *limit),
    }
}

/// Rows that pass, newest first.
macro_rules! select {
    ($from:literal) => {
        concat!(
            "select ",
            columns!(),
            " from ",
            $from,
            " and job < ?1 and (?2 is null or phase in (?2, ?3, ?4, ?5, ?6, ?7)) \
             and (?8 is null or instr(outcome, ?8) between 1 and 2) and (?9 is null or queue = ?9) \
             and (?10 is null or holder_incarnation = ?10) and (?11 is null or name = ?11) \
             and (?12 is null or instr(summary, ?12) > 0) order by job desc"
        )
    };
}
pub(super) const HELD: &str = select!("jobs indexed by jobs_held where holder_incarnation is not null");
pub(super) const NAMED: &str = select!("jobs indexed by jobs_named where name = ?11");
pub(super) const LIVE: &str = select!("jobs indexed by jobs_live where outcome is null");
pub(super) const ALL: &str = select!("jobs where true");

/// Reads rows newest first, through the index that leaves the least to look at. Labels are looked at as rows come, until
/// there are enough of them.
fn rows(connection: &Connection, filter: &Filter, before: Option<JobId>, limit: u32) -> Result<Page> {
    let sql = match filter {
        Filter { holder: Some(_), .. } => HELD,
        Filter { name: Some(_), .. } => NAMED,
        _ if filter.is_live_only() => LIVE,
        _ => ALL,
    };
    // No id reaches this key: its version would not be one.
    let before = before.map_or([0xff; 16], key);
    let phases = PhaseName::ALL.into_iter().filter(|phase| filter.phases.contains(phase));
    let mut phases = phases.map(PhaseName::as_str);
    let holder = filter.holder.map(|incarnation| incarnation.as_u128().to_be_bytes());
    // An outcome is stored as its name in quotes, or as an object that opens with it.
    let outcome = filter.outcome.as_ref().map(|name| ["\"", name, "\""].concat());
    let mut select = connection.prepare_cached(sql).map_err(failed)?;
    // As a label stands in the summary, where a title may say the same: this only spares reading most of the others.
    let label = filter.labels.iter().next().map(|(name, value)| {
        let quoted = [name, value].map(|text| serde_json::Value::from(text.as_str()).to_string());
        quoted.join(":")
    });
    let [a, b, c, d, e, f] = std::array::from_fn(|_| phases.next());
    let values = params![before, a, b, c, d, e, f, outcome, filter.queue, holder, filter.name, label];
    let found = select.query_map(values, |row| Ok(job_row(row))).map_err(failed)?;
    let found = found.map(|row| row.map_err(failed)?);
    let found = found.filter(|row| row.as_ref().map_or(true, |row| filter.has_labels(row)));
    Ok(Page::Rows(found.take(limit as usize).collect::<Result<_>>()?))
}

/// Reads a row of `columns`.
pub(super) fn job_row(row: &rusqlite::Row<'_>) -> Result<Row> {
    let job = job_id(row.get(0).map_err(failed)?)?;
    let unreadable = |what: &str| Error::Corrupt(format!("the row of {job} does not read: {what}"));
    let json = |error: serde_json::Error| unreadable(&error.to_string());
    let read = || -> rusqlite::Result<_> {
        let phase = row.get_ref(2)?.as_str()?;
        let outcome: Option<&str> = row.get_ref(9)?.as_str_or_null()?;
        Ok((phase, outcome, row.get_ref(15)?.as_str()?))
    };
    let (phase, outcome, summary) = read().map_err(failed)?;
    let phase = PhaseName::parse(phase).ok_or_else(|| unreadable("its phase"))?;
    let outcome = outcome.map(serde_json::from_str).transpose().map_err(json)?;
    let summary = serde_json::from_str(summary).map_err(json)?;
    let rest = || -> rusqlite::Result<_> {
        Ok(Row {
            job,
            version: Seq(row.get(1)?),
            phase,
            group: row.get(3)?,
            priority: row.get(4)?,
            due: row.get::<_, Option<u64>>(5)?.map(Timestamp),
            holder: holder(row, 6)?,
            outcome,
            least_reader: row.get(10)?,
            conversation: conversation(row, 11)?,
            submitted_at: Timestamp(row.get(13)?),
            updated_at: Timestamp(row.get(14)?),
            summary,
        })
    };
    rest().map_err(failed)
}

/// Reads the feed by place, which is the order of commits. What a removed job has left there is passed over.
fn feed(connection: &Connection, after: Option<&Cursor>, limit: u32) -> Result<Page> {
    const SELECT: &str = "select place, job, seq, at, kind, version, body from events \
         where place > ?1 and job <> zeroblob(16) order by place limit ?2";
    let start: u64 = match after {
        None => 0,
        Some(cursor) => cursor.0.parse().map_err(|_| bad_cursor(cursor))?,
    };
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let mut rows = select.query(params![start.min(i64::MAX as u64), limit]).map_err(failed)?;
    let (mut events, mut end) = (Vec::new(), start);
    while let Some(row) = rows.next().map_err(failed)? {
        end = row.get(0).map_err(failed)?;
        events.push((job_id(row.get(1).map_err(failed)?)?, event(row, 2)?));
    }
    if let (true, Some(cursor)) = (events.is_empty(), after) {
        // A place that was never given is one of another file, or of this one before it was restored: whoever
        // holds it would miss what is written from here on.
        if start > newest(connection)? {
            return Err(bad_cursor(cursor));
        }
    }
    let next = if end == 0 && after.is_none() { None } else { Some(Cursor(end.to_string())) };
    Ok(Page::Feed { events, next })
}

/// Returns the place in the feed of what was stored last; zero if nothing ever was.
fn newest(connection: &Connection) -> Result<u64> {
    const NEWEST: &str = "select coalesce(max(place), 0) from events";
    connection.query_row(NEWEST, [], |row| row.get(0)).map_err(failed)
}

/// Returns the same as a place to go on from.
pub(super) fn present(connection: &Connection) -> Result<Option<Cursor>> {
    let newest = newest(connection)?;
    Ok((newest > 0).then(|| Cursor(newest.to_string())))
}

/// Reads an event from five columns, from `first` on.
fn event(row: &rusqlite::Row<'_>, first: usize) -> Result<Event> {
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

/// Looks through the whole file for damage.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let found: String =
        connection.query_row("pragma integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found == "ok" { Ok(()) } else { Err(Error::Corrupt(found)) }
}
