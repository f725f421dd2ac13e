//! Reading the feed: a few read-only connections, each on its own snapshot, so that no read waits for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::{Incarnation, JobId, Timestamp};
use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::Semaphore;

use super::append::{job_id, key};
use super::failure::failed;
use super::log::{event, newest_place};
use super::open;
use crate::{Cursor, Error, Feed, Line, Result};

/// Reads at the same time. They are short and mostly hit memory; more would only share the same cores.
const READERS_MAX: usize = 4;

/// Connections for reading, opened on demand.
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
            // After a failure the next read gets a new connection: one that was opened at a bad moment stays bad.
            if answer.is_ok() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(place);
            answer
        });
        read.await.map_err(|_| stopped())?
    }
}

/// Returns the lines in which a job can be claimed.
pub(super) fn ready(connection: &Connection, now: Timestamp) -> Result<Vec<Line>> {
    const SELECT: &str = "select distinct r.queue, r.labels from ready r left join groups g on g.name = r.queue \
         where r.due <= ?1 and not coalesce(g.paused, 0) order by r.queue, r.labels";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let now = i64::try_from(now.0).unwrap_or(i64::MAX);
    let lines = select.query_map([now], |row| Ok(Line { group: row.get(0)?, labels: row.get(1)? }));
    lines.and_then(Iterator::collect).map_err(failed)
}

/// Returns the jobs that an incarnation holds. Few jobs are held, so the scan of their index is short.
pub(super) fn held(
    connection: &Connection,
    by: Incarnation,
    after: Option<JobId>,
    limit: u32,
) -> Result<Vec<JobId>> {
    const SELECT: &str = "select job from jobs indexed by jobs_held \
         where holder_incarnation = ?1 and holder_incarnation is not null and job > ?2 order by job limit ?3";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    // Sorts before every id.
    let after = after.map_or([0; 16], key);
    let jobs = select.query_map(params![by.as_u128().to_be_bytes(), after, limit], |row| row.get(0));
    let jobs: Vec<[u8; 16]> = jobs.and_then(Iterator::collect).map_err(failed)?;
    jobs.into_iter().map(job_id).collect()
}

/// Reads the feed by place, which is the order of commits. Tombstones are skipped.
pub(super) fn feed(connection: &Connection, after: Option<Cursor>, limit: u32) -> Result<Feed> {
    const SELECT: &str = "select place, job, seq, at, kind, version, body from events \
         where place > ?1 and job <> zeroblob(16) order by place limit ?2";
    let start: u64 = match &after {
        None => 0,
        Some(cursor) => cursor.0.parse().map_err(|_| cursor.foreign())?,
    };
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let mut rows = select.query(params![start.min(i64::MAX as u64), limit]).map_err(failed)?;
    let (mut events, mut end) = (Vec::new(), start);
    while let Some(row) = rows.next().map_err(failed)? {
        end = row.get(0).map_err(failed)?;
        events.push((job_id(row.get(1).map_err(failed)?)?, event(row, 2)?));
    }
    if let (true, Some(cursor)) = (events.is_empty(), &after) {
        // The place is of another file, or of this one before it was restored: a reader that goes on from it would
        // miss what is written from here on.
        if start > newest_place(connection)? {
            return Err(cursor.foreign());
        }
    }
    let next = if end == 0 && after.is_none() { None } else { Some(Cursor(end.to_string())) };
    Ok(Feed { events, next })
}

/// Returns the place of the newest event as a cursor.
pub(super) fn feed_end(connection: &Connection) -> Result<Option<Cursor>> {
    let newest = newest_place(connection)?;
    Ok((newest > 0).then(|| Cursor(newest.to_string())))
}

/// Checks the whole file for damage.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let found: String =
        connection.query_row("pragma integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found == "ok" { Ok(()) } else { Err(Error::Corrupt(found)) }
}
