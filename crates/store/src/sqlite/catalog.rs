//! The catalog in SQL.

use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::{PhaseName, Row, Section};
use lastword_core::{JobId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::Sqlite;
use super::append::{job_id, key, moment};
use super::failure::{execute, failed};
use super::list;
use super::rows::{bind, columns, job_row, listed_row, passes, passing};
use super::waits::is_awaited;
use crate::{
    Catalog, Counts, Error, FOUND_MAX, Filter, GroupCounts, List, Listed, Prunable, Prune, Removal, Result,
};

const ROW: &str = concat!("select ", columns!(), " from jobs where job = ?1");

/// Returns the row of a job.
fn row(connection: &Connection, job: JobId) -> Result<Option<Row>> {
    let mut select = connection.prepare_cached(ROW).map_err(failed)?;
    let row = select.query_row([key(job)], |row| Ok(job_row(row))).optional().map_err(failed)?;
    row.transpose()
}

/// Returns the rows of jobs with their sections, of one moment.
fn listed(connection: &Connection, jobs: &[JobId]) -> Result<Vec<Listed>> {
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let mut select = snapshot.prepare_cached(ROW).map_err(failed)?;
    let mut found = Vec::new();
    for job in jobs {
        let row = select.query_row([key(*job)], |row| Ok(listed_row(row))).optional().map_err(failed)?;
        found.extend(row.transpose()?);
    }
    Ok(found)
}

/// Rows that pass a filter, newest first.
macro_rules! filtered {
    ($from:literal) => {
        concat!("select ", columns!(), " from ", $from, " and job < ?1", passes!(), " order by job desc")
    };
}
pub(super) const NAMED: &str = filtered!("jobs indexed by jobs_named where name = ?10");
pub(super) const CONVERSATION: &str = filtered!("jobs indexed by jobs_conversation where conversation = ?19");
pub(super) const LIVE: &str = filtered!("jobs indexed by jobs_live where outcome is null");
pub(super) const ALL: &str = filtered!("jobs where true");

/// Returns rows newest first, through the index that leaves the fewest rows to read. Summaries are compared here, row by row, until there
/// are enough.
fn rows(connection: &Connection, filter: &Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
    let sql = match filter {
        Filter { conversation: Some(_), .. } => CONVERSATION,
        Filter { name: Some(_), .. } => NAMED,
        _ if filter.is_live_only() => LIVE,
        _ => ALL,
    };
    let mut select = connection.prepare_cached(sql).map_err(failed)?;
    // Sorts after every id.
    let before = before.map_or([0xff; 16], key);
    select.raw_bind_parameter(1, before).and_then(|()| bind(&mut select, filter)).map_err(failed)?;
    passing(&mut select, filter, limit as usize)
}

/// Returns the rows of a query.
fn query(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<Row>> {
    let mut select = connection.prepare_cached(sql).map_err(failed)?;
    let found = select.query_map(values, |row| Ok(job_row(row))).map_err(failed)?;
    found.map(|row| row.map_err(failed)?).collect()
}

macro_rules! select {
    ($from:literal) => {
        concat!("select ", columns!(), " from ", $from)
    };
}

pub(super) const LAST: &str = select!("jobs order by job desc limit 1");
pub(super) const NAMED_LIVE: &str =
    select!("jobs indexed by jobs_named_live where name = ?1 and outcome is null order by job desc limit 1");
pub(super) const NAMED_ANY: &str =
    select!("jobs indexed by jobs_named where name = ?1 order by job desc limit 1");
pub(super) const SHORT: &str =
    select!("jobs indexed by jobs_short where substr(job, 12) between ?1 and ?2 order by job desc limit ?3");
pub(super) const BEGUN: &str = select!("jobs where job between ?1 and ?2 order by job desc limit ?3");
pub(super) const PRUNABLE: &str = "select job from jobs indexed by jobs_ended \
     where outcome is not null and updated_at < ?1 and (seen_at > 0 or ?2) and section <> 4 \
     order by updated_at, job limit ?3";
pub(super) const UNREAD: &str = "select count(*) from jobs indexed by jobs_ended \
     where outcome is not null and updated_at < ?1 and seen_at = 0 and section <> 4 and not ?2";
pub(super) const COUNT: &str = "select count(*) from jobs indexed by jobs_short";

fn find(connection: &Connection, reference: &Reference) -> Result<Vec<Row>> {
    const ID: &str = select!("jobs where job = ?1");
    match reference {
        Reference::Last => query(connection, LAST, []),
        Reference::Id(job) => query(connection, ID, [key(*job)]),
        Reference::Loose(loose) => find_loose(connection, loose),
    }
}

fn find_loose(connection: &Connection, loose: &Loose) -> Result<Vec<Row>> {
    let mut named = Vec::new();
    if let Some(name) = &loose.name {
        named = query(connection, NAMED_LIVE, [name])?;
        if named.is_empty() {
            named = query(connection, NAMED_ANY, [name])?;
        }
    }
    let (mut shorts, mut ids) = (Vec::new(), Vec::new());
    if let Some(range) = &loose.shorts {
        let bytes = |bits: u64| bits.to_be_bytes()[3..].to_vec();
        shorts = query(connection, SHORT, params![bytes(*range.start()), bytes(*range.end()), FOUND_MAX])?;
    }
    if let Some(range) = &loose.ids {
        let values = params![range.start().to_be_bytes(), range.end().to_be_bytes(), FOUND_MAX];
        ids = query(connection, BEGUN, values)?;
    }
    let mut meant = loose.settle(|row| row.job, named.pop(), shorts, ids);
    meant.truncate(FOUND_MAX as usize);
    Ok(meant)
}

fn is_seen(connection: &Connection, job: JobId) -> Result<bool> {
    const SELECT: &str = "select 1 from jobs where job = ?1 and (seen_at > 0 or section = 4)";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.exists([key(job)]).map_err(failed)
}

fn prunable(connection: &Connection, prune: &Prune) -> Result<Prunable> {
    let before = moment(prune.before);
    let mut select = connection.prepare_cached(PRUNABLE).map_err(failed)?;
    let jobs = select.query_map(params![before, prune.unread, prune.limit], |row| row.get(0));
    let jobs: Vec<[u8; 16]> = jobs.and_then(Iterator::collect).map_err(failed)?;
    let mut unread = connection.prepare_cached(UNREAD).map_err(failed)?;
    let kept_unread = unread.query_row(params![before, prune.unread], |row| row.get(0)).map_err(failed)?;
    Ok(Prunable { jobs: jobs.into_iter().map(job_id).collect::<Result<_>>()?, kept_unread })
}

/// Counts live jobs by their index and all jobs by the smallest one, without reading rows of ended jobs.
fn counts(connection: &Connection) -> Result<Counts> {
    const LIVE: &str =
        "select phase, count(*) from jobs indexed by jobs_live where outcome is null group by phase";
    let mut live = connection.prepare_cached(LIVE).map_err(failed)?;
    let found = live.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?)));
    let found: Vec<(String, u64)> = found.and_then(Iterator::collect).map_err(failed)?;
    let mut counts = Counts::new();
    for (phase, count) in found {
        counts.insert(counted_phase(&phase)?, count);
    }
    let all: u64 = connection.query_row(COUNT, [], |row| row.get(0)).map_err(failed)?;
    let ended = all - counts.values().sum::<u64>();
    if ended > 0 {
        counts.insert(PhaseName::Ended, ended);
    }
    Ok(counts)
}

fn counts_by_group(connection: &Connection) -> Result<GroupCounts> {
    const LIVE: &str = "select queue, phase, count(*) from jobs indexed by jobs_live where outcome is null group by queue, phase";
    let mut live = connection.prepare_cached(LIVE).map_err(failed)?;
    let found = live
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, u64>(2)?)));
    let found: Vec<(String, String, u64)> = found.and_then(Iterator::collect).map_err(failed)?;
    let mut counts = GroupCounts::new();
    for (group, phase, count) in found {
        counts.entry(group).or_default().insert(counted_phase(&phase)?, count);
    }
    Ok(counts)
}

/// Returns the phase that jobs were counted in.
fn counted_phase(phase: &str) -> Result<PhaseName> {
    let unknown = || Error::Corrupt(format!("a job is in the phase `{}`", phase.escape_default()));
    PhaseName::parse(phase).ok_or_else(unknown)
}

/// Removes an ended job. A place in the feed is never used twice, so if the newest event goes, a tombstone keeps its position; the next
/// removal of a newest event deletes it.
fn remove(connection: &Connection, job: JobId, now: Timestamp) -> Result<Removal> {
    const SELECT: &str = "select outcome is not null from jobs where job = ?1";
    const NEWEST: &str = "select job from events order by place desc limit 1";
    const TOMBSTONE: &str = "update events set job = zeroblob(16), seq = place, kind = 'removed', body = '' \
         where place = (select max(place) from events)";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    match select.query_row([key(job)], |row| row.get(0)).optional().map_err(failed)? {
        None => return Ok(Removal::NotThere),
        Some(false) => return Ok(Removal::NotEnded),
        Some(true) if is_awaited(connection, job)? => return Ok(Removal::Awaited),
        Some(true) => {}
    }
    let mut newest = connection.prepare_cached(NEWEST).map_err(failed)?;
    let newest: Option<[u8; 16]> = newest.query_row([], |row| row.get(0)).optional().map_err(failed)?;
    if newest == Some(key(job)) {
        execute(connection, "delete from events where job = zeroblob(16)", [])?;
        execute(connection, TOMBSTONE, [])?;
    }
    execute(connection, "delete from events where job = ?1", [key(job)])?;
    execute(
        connection,
        "update keys set removed = ?2, at = ?2 where job = ?1",
        params![key(job), moment(now)],
    )?;
    execute(connection, "delete from jobs where job = ?1", [key(job)])?;
    Ok(Removal::Gone)
}

impl Catalog for Sqlite {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.0.readers.run(move |connection| row(connection, job)).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.0.readers.run(move |connection| rows(connection, &filter, before, limit)).await
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.0.readers.run(move |connection| list::list(connection, &list)).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.0.readers.run(move |connection| listed(connection, &jobs)).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.0.readers.run(move |connection| find(connection, &reference)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.0.readers.run(counts).await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.0.readers.run(counts_by_group).await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        const SEEN: &str = "update jobs set seen_at = max(?2, 1), section = ?3 where job = ?1 and outcome is not null and seen_at = 0 and section <> 4";
        // An ending is mostly read more than once, and a write costs a sync.
        if self.0.readers.run(move |connection| is_seen(connection, job)).await? {
            return Ok(());
        }
        let values = (key(job), moment(now), Section::Read.number());
        self.0.writer.change(move |connection| execute(connection, SEEN, values)).await.map(drop)
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.0.readers.run(move |connection| prunable(connection, &prune)).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.0.writer.change(move |connection| remove(connection, job, now)).await
    }
}
