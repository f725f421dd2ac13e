//! Siblings in SQL. What changes something goes through the one writer, as a request like any other.

use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, JobId, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::append::{Prepared, job_id, key, moment};
use super::reader::{self, columns, job_row};
use super::{Sqlite, failed, writer};
use crate::siblings::{
    Counts, FOUND_MAX, Group, KEY_MS, Kept, Key, Prunable, Prune, Removal, SWEPT_MAX, Siblings,
};
use crate::{Claim, Claimed, Cursor, Error, Result};

/// Something the writer is asked for beside appends, claims and leases.
#[derive(Debug)]
pub(super) enum Errand {
    Key(Key),
    AddGroup(Group),
    SetGroup(Group),
    RemoveGroup(String),
    Remove(JobId),
    MarkRead(JobId),
}

/// What an errand came to.
#[derive(Debug)]
pub(super) enum Done {
    Kept(Kept),
    Group(Group),
    /// Whether there was anything to do.
    Did(bool),
    Removal(Removal),
}

/// Does an errand inside a batch's transaction.
pub(super) fn run(connection: &Connection, errand: &Errand) -> Result<Done> {
    match errand {
        Errand::Key(wanted) => keep(connection, wanted).map(Done::Kept),
        Errand::AddGroup(group) => add_group(connection, group).map(Done::Group),
        Errand::SetGroup(group) => {
            const SET: &str = "insert into groups (name, slots, paused) values (?1, ?2, ?3) \
                 on conflict (name) do update set slots = excluded.slots, paused = excluded.paused";
            execute(connection, SET, params![group.name, group.slots, group.paused]).map(Done::Did)
        }
        Errand::RemoveGroup(name) => {
            execute(connection, "delete from groups where name = ?1", [name]).map(Done::Did)
        }
        Errand::Remove(job) => remove(connection, *job).map(Done::Removal),
        Errand::MarkRead(job) => {
            const READ: &str = "update jobs set read = 1 where job = ?1 and outcome is not null and read = 0";
            execute(connection, READ, [key(*job)]).map(Done::Did)
        }
    }
}

/// Runs a statement and reports whether it changed anything.
fn execute(connection: &Connection, sql: &str, values: impl Params) -> Result<bool> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.execute(values).map(|rows| rows > 0).map_err(failed)
}

fn keep(connection: &Connection, wanted: &Key) -> Result<Kept> {
    // The key itself first: whatever else is to go, it does not stand any more.
    const EXPIRE: &str = "delete from keys where key = ?1 and at < ?2";
    const SWEEP: &str = "delete from keys where key in \
         (select key from keys where at < ?1 order by at, key limit ?2)";
    const SELECT: &str = "select job, fingerprint from keys where key = ?1";
    const INSERT: &str = "insert into keys (key, fingerprint, job, at) values (?1, ?2, ?3, ?4)";
    let old = moment(Timestamp(wanted.now.0.saturating_sub(KEY_MS)));
    execute(connection, EXPIRE, params![wanted.key, old])?;
    execute(connection, SWEEP, params![old, SWEPT_MAX])?;
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let known = select.query_row([&wanted.key], |row| Ok((row.get(0)?, row.get(1)?))).optional();
    if let Some((job, fingerprint)) = known.map_err(failed)? {
        let (job, fingerprint) = (job_id(job)?, u128::from_be_bytes(fingerprint));
        return Ok(Kept { job, fingerprint, replayed: true });
    }
    let values = params![wanted.key, wanted.fingerprint.to_be_bytes(), key(wanted.job), moment(wanted.now)];
    execute(connection, INSERT, values)?;
    Ok(Kept { job: wanted.job, fingerprint: wanted.fingerprint, replayed: false })
}

fn add_group(connection: &Connection, group: &Group) -> Result<Group> {
    const INSERT: &str = "insert or ignore into groups (name, slots, paused) values (?1, ?2, ?3)";
    const SELECT: &str = "select name, slots, paused from groups where name = ?1";
    execute(connection, INSERT, params![group.name, group.slots, group.paused])?;
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.query_row([&group.name], read_group).map_err(failed)
}

fn read_group(row: &rusqlite::Row<'_>) -> rusqlite::Result<Group> {
    Ok(Group { name: row.get(0)?, slots: row.get(1)?, paused: row.get(2)? })
}

/// Removes an ended job. The place of the newest event is never given twice, so if that goes, a stone is left there;
/// no job has its key, and the next removal takes it away.
fn remove(connection: &Connection, job: JobId) -> Result<Removal> {
    const SELECT: &str = "select outcome is not null from jobs where job = ?1";
    const NEWEST: &str = "select job from events order by place desc limit 1";
    const STONE: &str = "update events set job = zeroblob(16), seq = place, kind = 'removed', body = '' \
         where place = (select max(place) from events)";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    match select.query_row([key(job)], |row| row.get(0)).optional().map_err(failed)? {
        None => return Ok(Removal::NotThere),
        Some(false) => return Ok(Removal::NotEnded),
        Some(true) => {}
    }
    let mut newest = connection.prepare_cached(NEWEST).map_err(failed)?;
    let newest: Option<[u8; 16]> = newest.query_row([], |row| row.get(0)).optional().map_err(failed)?;
    if newest == Some(key(job)) {
        execute(connection, "delete from events where job = zeroblob(16)", [])?;
        execute(connection, STONE, [])?;
    }
    execute(connection, "delete from events where job = ?1", [key(job)])?;
    execute(connection, "delete from keys where job = ?1", [key(job)])?;
    execute(connection, "delete from jobs where job = ?1", [key(job)])?;
    Ok(Removal::Gone)
}

/// Reads the rows of a query.
fn rows(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<Row>> {
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
pub(super) const NAMED: &str =
    select!("jobs indexed by jobs_named where name = ?1 order by job desc limit 1");
pub(super) const SHORT: &str =
    select!("jobs indexed by jobs_short where substr(job, 12) between ?1 and ?2 order by job desc limit ?3");
pub(super) const BEGUN: &str = select!("jobs where job between ?1 and ?2 order by job desc limit ?3");
pub(super) const PRUNABLE: &str = "select job from jobs indexed by jobs_ended \
     where outcome is not null and updated_at < ?1 and (read = 1 or ?2) \
     order by updated_at, job limit ?3";
pub(super) const UNREAD: &str = "select count(*) from jobs indexed by jobs_ended \
     where outcome is not null and updated_at < ?1 and read = 0 and not ?2";
pub(super) const COUNT: &str = "select count(*) from jobs indexed by jobs_short";

fn find(connection: &Connection, reference: &Reference) -> Result<Vec<Row>> {
    const ID: &str = select!("jobs where job = ?1");
    match reference {
        Reference::Last => rows(connection, LAST, []),
        Reference::Id(job) => rows(connection, ID, [key(*job)]),
        Reference::Loose(loose) => find_loose(connection, loose),
    }
}

fn find_loose(connection: &Connection, loose: &Loose) -> Result<Vec<Row>> {
    let mut named = Vec::new();
    if let Some(name) = &loose.name {
        named = rows(connection, NAMED_LIVE, [name])?;
        if named.is_empty() {
            named = rows(connection, NAMED, [name])?;
        }
    }
    let (mut shorts, mut ids) = (Vec::new(), Vec::new());
    if let Some(range) = &loose.shorts {
        let bytes = |bits: u64| bits.to_be_bytes()[3..].to_vec();
        shorts = rows(connection, SHORT, params![bytes(*range.start()), bytes(*range.end()), FOUND_MAX])?;
    }
    if let Some(range) = &loose.ids {
        let values = params![range.start().to_be_bytes(), range.end().to_be_bytes(), FOUND_MAX];
        ids = rows(connection, BEGUN, values)?;
    }
    let mut meant = loose.settle(|row| row.job, named.pop(), shorts, ids);
    meant.truncate(FOUND_MAX as usize);
    Ok(meant)
}

fn groups(connection: &Connection) -> Result<Vec<Group>> {
    const SELECT: &str = "select name, slots, paused from groups order by name";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select.query_map([], read_group).map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

fn is_read(connection: &Connection, job: JobId) -> Result<bool> {
    const SELECT: &str = "select 1 from jobs where job = ?1 and read = 1";
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

/// Counts by the index of live jobs and by the smallest one of all: rows of ended jobs are not looked at.
fn counts(connection: &Connection) -> Result<Counts> {
    const LIVE: &str =
        "select phase, count(*) from jobs indexed by jobs_live where outcome is null group by phase";
    let mut live = connection.prepare_cached(LIVE).map_err(failed)?;
    let found = live.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?)));
    let found: Vec<(String, u64)> = found.and_then(Iterator::collect).map_err(failed)?;
    let mut counts = Counts::new();
    for (phase, count) in found {
        let phase = PhaseName::parse(&phase)
            .ok_or_else(|| Error::Corrupt(format!("a job is in the phase `{}`", phase.escape_default())))?;
        counts.insert(phase, count);
    }
    let all: u64 = connection.query_row(COUNT, [], |row| row.get(0)).map_err(failed)?;
    let ended = all - counts.values().sum::<u64>();
    if ended > 0 {
        counts.insert(PhaseName::Ended, ended);
    }
    Ok(counts)
}

impl Sqlite {
    async fn errand(&self, errand: Errand) -> Result<Done> {
        self.0.writer.ask(|reply| writer::Request::Errand(errand, reply)).await
    }
}

/// Says that an errand was answered in another's words, which nothing here does.
fn mixed_up() -> Error {
    Error::Unavailable("the writer answered something else".to_owned())
}

impl Siblings for Sqlite {
    async fn append_and_claim(&self, append: Append, claim: Claim) -> (Result<Seq>, Result<Vec<Claimed>>) {
        let prepared = Box::new(Prepared::new(append));
        let (stored, taken) = self
            .0
            .writer
            .ask_both(
                |reply| writer::Request::Append(prepared, reply),
                |reply| writer::Request::Claim(Box::new(claim), reply),
            )
            .await;
        (stored.map(|(seq, _)| seq), taken)
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.0.readers.run(move |connection| find(connection, &reference)).await
    }

    async fn key(&self, key: Key) -> Result<Kept> {
        match self.errand(Errand::Key(key)).await? {
            Done::Kept(kept) => Ok(kept),
            _ => Err(mixed_up()),
        }
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.0.readers.run(groups).await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        match self.errand(Errand::AddGroup(group)).await? {
            Done::Group(group) => Ok(group),
            _ => Err(mixed_up()),
        }
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.errand(Errand::SetGroup(group)).await.map(drop)
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        match self.errand(Errand::RemoveGroup(name.to_owned())).await? {
            Done::Did(did) => Ok(did),
            _ => Err(mixed_up()),
        }
    }

    async fn remove(&self, job: JobId) -> Result<Removal> {
        match self.errand(Errand::Remove(job)).await? {
            Done::Removal(removal) => Ok(removal),
            _ => Err(mixed_up()),
        }
    }

    async fn mark_read(&self, job: JobId) -> Result<()> {
        // Most are read more than once, and a write has its price.
        if self.0.readers.run(move |connection| is_read(connection, job)).await? {
            return Ok(());
        }
        self.errand(Errand::MarkRead(job)).await.map(drop)
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.0.readers.run(move |connection| prunable(connection, &prune)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.0.readers.run(counts).await
    }

    async fn present(&self) -> Result<Option<Cursor>> {
        self.0.readers.run(reader::present).await
    }
}
