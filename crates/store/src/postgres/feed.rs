//! The feed over all jobs: ordered by the transaction that wrote, and read only up to where every transaction is over.
//!
//! A number drawn before a commit can become visible after a higher one, and a reader that has gone past it would miss it for ever. So no
//! event is shown while a transaction at or below it is still open. A transaction that stays open holds the feed back.

use deadpool_postgres::Pool;
use uuid::Uuid;

use super::batch::{event, job_id, number};
use super::connect::query;
use super::failure::Try;
use crate::{Cursor, Error, Feed, Result};

/// Everything below the oldest transaction that is still open, by the very snapshot that reads. A transaction that is known to
/// be in another database of the same server writes nothing here and is ignored; one of unknown place holds the feed back, because it may
/// have been ours and ended since.
macro_rules! settled {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "select feed_offset + coalesce(
                (
                    select min(open::text::bigint) from pg_snapshot_xip(pg_current_snapshot()) as open
                    where not exists (
                        select 1 from pg_stat_activity a join pg_database d on d.oid = a.datid
                        where a.backend_xid = open::xid and d.datname <> current_database()
                    )
                ),
                pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            ) from meta",
            $after
        )
    };
}

/// The instance, with each event; alone if there is none.
const FEED: &str = settled!(
    "select e.job, e.seq, e.at, e.kind, e.version, e.body, e.place, m.instance_first
    from meta m left join lateral (
        select job, seq, at, kind, version, body, place from events
        where (place, job, seq) > ($1, $2, $3) and place < (",
    ") order by place, job, seq limit $4
    ) e on true
    order by e.place, e.job, e.seq"
);

/// The instance, with the newest event that the feed shows.
const NEWEST: &str = settled!(
    "select m.instance_first, e.job, e.seq, e.place
    from meta m left join lateral (
        select job, seq, place from events where place < (",
    ") order by place desc, job desc, seq desc limit 1
    ) e on true"
);

/// A place in the feed of one instance of the database.
struct Place {
    instance: Uuid,
    place: i64,
    job: Uuid,
    seq: i64,
}

impl Place {
    fn parse(cursor: &Cursor) -> Result<Place> {
        let read = || {
            let mut parts = cursor.0.split('.');
            let mut next = || parts.next();
            let place = Place {
                instance: next()?.parse().ok()?,
                place: next()?.parse().ok()?,
                job: next()?.parse().ok()?,
                seq: next()?.parse().ok()?,
            };
            next().is_none().then_some(place)
        };
        read().ok_or_else(|| cursor.foreign())
    }

    fn cursor(&self) -> Cursor {
        let Place { instance, place, job, seq } = self;
        let parts =
            [instance.simple().to_string(), place.to_string(), job.simple().to_string(), seq.to_string()];
        Cursor(parts.join("."))
    }
}

/// Reads a piece of the feed.
pub(super) async fn feed(pool: &Pool, after: Option<&Cursor>, limit: u32) -> Try<Feed> {
    let start = after.map(Place::parse).transpose()?;
    let (place, job, seq) =
        start.as_ref().map_or((i64::MIN, Uuid::nil(), 0), |start| (start.place, start.job, start.seq));
    let rows = query(pool, FEED, &[&place, &job, &seq, &i64::from(limit)]).await?;
    let instance: Uuid = rows.first().ok_or_else(emptied)?.get(7);
    if start.is_some_and(|start| start.instance != instance) {
        let text =
            "the database was restored since this place in the feed was given: read it from the beginning";
        return Err(Error::Corrupt(text.to_owned()).into());
    }
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Some(job) = row.get::<_, Option<Uuid>>(0) {
            events.push((job_id(job)?, event(row, 1)?));
        }
    }
    let next = match (events.last(), rows.last()) {
        (Some((job, event)), Some(row)) => {
            let place = Place { instance, place: row.get(6), job: job.as_uuid(), seq: number(event.seq.0) };
            Some(place.cursor())
        }
        _ => after.cloned(),
    };
    Ok(Feed { events, next })
}

/// Returns the place of the newest event that the feed shows; `None` if it shows none.
pub(super) async fn feed_end(pool: &Pool) -> Try<Option<Cursor>> {
    let rows = query(pool, NEWEST, &[]).await?;
    let row = rows.first().ok_or_else(emptied)?;
    let Some(job) = row.get(1) else { return Ok(None) };
    Ok(Some(Place { instance: row.get(0), place: row.get(3), job, seq: row.get(2) }.cursor()))
}

fn emptied() -> Error {
    Error::Corrupt("it has lost its row in `meta`: restore it from a backup".to_owned())
}
