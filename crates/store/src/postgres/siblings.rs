//! Siblings in PostgreSQL: one statement each.

use deadpool_postgres::Pool;
use lastword_core::JobId;
use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::{PhaseName, Row};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Postgres;
use super::batch::{job_id, number};
use super::connect::{Failure, Patience, within};
use super::feed;
use super::view::{read, select_rows};
use crate::siblings::{
    Counts, FOUND_MAX, Group, KEY_MS, Kept, Key, Prunable, Prune, Removal, SWEPT_MAX, Siblings,
};
use crate::{Cursor, Error, Result};

/// What one try comes to.
type Try<T> = std::result::Result<T, Failure>;

/// A value of a statement.
type Value<'a> = &'a (dyn ToSql + Sync);

const LAST: &str = select_rows!("true order by job desc limit 1");
const ID: &str = select_rows!("job = $1");
const LIVE: &str = select_rows!("name = $1 and outcome is null order by job desc limit 1");
const NAMED: &str = select_rows!("name = $1 order by job desc limit 1");
const SHORT: &str =
    select_rows!("substring(uuid_send(job) from 12) between $1 and $2 order by job desc limit $3");
const BEGUN: &str = select_rows!("job between $1 and $2 order by job desc limit $3");

/// The row that is there wins; one that another transaction has just made is waited for, and read by the next try.
const KEEP: &str = "
    with swept as (
        delete from keys where key in (
            select key from keys where at < $5 and key <> $1 order by at, key limit $6 for update skip locked
        )
    ), made as (
        insert into keys (key, fingerprint, job, at) values ($1, $2, $3, $4)
        on conflict (key) do update set fingerprint = $2, job = $3, at = $4 where keys.at < $5
        returning job, fingerprint
    )
    select job, fingerprint, false from made
    union all
    select job, fingerprint, true from keys where key = $1 and not exists (select 1 from made)";

const GROUPS: &str = "select name, slots, paused from groups order by name";
const GROUP: &str = "select name, slots, paused from groups where name = $1";
const ADD_GROUP: &str =
    "insert into groups (name, slots, paused) values ($1, $2, $3) on conflict (name) do nothing";
const SET_GROUP: &str = "
    insert into groups (name, slots, paused) values ($1, $2, $3)
    on conflict (name) do update set slots = excluded.slots, paused = excluded.paused";
const REMOVE_GROUP: &str = "delete from groups where name = $1";

/// Both answers are of the moment before: what is to go is there, and what may not go is there and has not ended.
const REMOVE: &str = "
    with gone as (
        delete from jobs where job = $1 and outcome is not null returning job
    ), log as (
        delete from events where job = $1 and exists (select 1 from gone)
    ), keyed as (
        delete from keys where job = $1 and exists (select 1 from gone)
    )
    select exists (select 1 from gone), exists (select 1 from jobs where job = $1)";

const MARK_READ: &str = "update jobs set read = true where job = $1 and outcome is not null and not read";

const PRUNABLE: &str = "
    select job from jobs where outcome is not null and updated_at < $1 and (read or $2)
    order by updated_at, job limit $3";
const UNREAD: &str =
    "select count(*) from jobs where outcome is not null and updated_at < $1 and not (read or $2)";

const COUNT_LIVE: &str = "select phase, count(*) from jobs where outcome is null group by phase";
const COUNT_ENDED: &str = "select count(*) from jobs where outcome is not null";

async fn query(pool: &Pool, sql: &str, values: &[Value<'_>]) -> Try<Vec<tokio_postgres::Row>> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, values).await?)
}

async fn execute(pool: &Pool, sql: &str, values: &[Value<'_>]) -> Try<bool> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, values).await? > 0)
}

async fn rows(pool: &Pool, sql: &str, values: &[Value<'_>]) -> Try<Vec<Row>> {
    Ok(query(pool, sql, values).await?.iter().map(read).collect::<Result<_>>()?)
}

async fn find(pool: &Pool, reference: &Reference) -> Try<Vec<Row>> {
    match reference {
        Reference::Last => rows(pool, LAST, &[]).await,
        Reference::Id(job) => rows(pool, ID, &[&job.as_uuid()]).await,
        Reference::Loose(loose) => find_loose(pool, loose).await,
    }
}

async fn find_loose(pool: &Pool, loose: &Loose) -> Try<Vec<Row>> {
    let limit = i64::from(FOUND_MAX);
    let mut named = Vec::new();
    if let Some(name) = &loose.name {
        named = rows(pool, LIVE, &[name]).await?;
        if named.is_empty() {
            named = rows(pool, NAMED, &[name]).await?;
        }
    }
    let (mut shorts, mut ids) = (Vec::new(), Vec::new());
    if let Some(range) = &loose.shorts {
        let bytes = |bits: u64| bits.to_be_bytes()[3..].to_vec();
        shorts = rows(pool, SHORT, &[&bytes(*range.start()), &bytes(*range.end()), &limit]).await?;
    }
    if let Some(range) = &loose.ids {
        let (first, last) = (Uuid::from_u128(*range.start()), Uuid::from_u128(*range.end()));
        ids = rows(pool, BEGUN, &[&first, &last, &limit]).await?;
    }
    let mut meant = loose.settle(|row| row.job, named.pop(), shorts, ids);
    meant.truncate(FOUND_MAX as usize);
    Ok(meant)
}

async fn keep(pool: &Pool, wanted: &Key) -> Try<Kept> {
    let (fingerprint, job) = (Uuid::from_u128(wanted.fingerprint), wanted.job.as_uuid());
    let (now, old) = (number(wanted.now.0), number(wanted.now.0.saturating_sub(KEY_MS)));
    let values: [Value<'_>; 6] = [&wanted.key, &fingerprint, &job, &now, &old, &i64::from(SWEPT_MAX)];
    let kept = query(pool, KEEP, &values).await?;
    let Some(row) = kept.first() else {
        return Err(Failure::Clash("another request with this key is being stored".to_owned()));
    };
    let fingerprint: Uuid = row.get(1);
    Ok(Kept { job: job_id(row.get(0))?, fingerprint: fingerprint.as_u128(), replayed: row.get(2) })
}

fn read_group(row: &tokio_postgres::Row) -> Group {
    let slots: Option<i64> = row.get(1);
    let slots = slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX));
    Group { name: row.get(0), slots, paused: row.get(2) }
}

async fn write_group(pool: &Pool, sql: &str, group: &Group) -> Try<bool> {
    execute(pool, sql, &[&group.name, &group.slots.map(i64::from), &group.paused]).await
}

async fn add_group(pool: &Pool, group: &Group) -> Try<Group> {
    write_group(pool, ADD_GROUP, group).await?;
    match query(pool, GROUP, &[&group.name]).await?.first() {
        Some(row) => Ok(read_group(row)),
        None => Err(Failure::Clash("the group was removed at once".to_owned())),
    }
}

async fn remove(pool: &Pool, job: JobId) -> Try<Removal> {
    let told = query(pool, REMOVE, &[&job.as_uuid()]).await?;
    Ok(match told.first().map(|row| (row.get(0), row.get(1))) {
        Some((true, _)) => Removal::Gone,
        Some((false, true)) => Removal::NotEnded,
        _ => Removal::NotThere,
    })
}

async fn prunable(pool: &Pool, prune: &Prune) -> Try<Prunable> {
    let (before, limit) = (number(prune.before.0), i64::from(prune.limit));
    let jobs = query(pool, PRUNABLE, &[&before, &prune.unread, &limit]).await?;
    let unread = query(pool, UNREAD, &[&before, &prune.unread]).await?;
    let kept_unread = unread.first().map_or(0, |row| row.get::<_, i64>(0)) as u64;
    Ok(Prunable { jobs: jobs.iter().map(|row| job_id(row.get(0))).collect::<Result<_>>()?, kept_unread })
}

async fn counts(pool: &Pool) -> Try<Counts> {
    let mut counts = Counts::new();
    for row in query(pool, COUNT_LIVE, &[]).await? {
        let phase: &str = row.get(0);
        let unknown = || Error::Corrupt(format!("a job is in the phase `{}`", phase.escape_default()));
        counts.insert(PhaseName::parse(phase).ok_or_else(unknown)?, row.get::<_, i64>(1) as u64);
    }
    let ended = query(pool, COUNT_ENDED, &[]).await?;
    let ended = ended.first().map_or(0, |row| row.get::<_, i64>(0));
    if ended > 0 {
        counts.insert(PhaseName::Ended, ended as u64);
    }
    Ok(counts)
}

impl Postgres {
    /// Tries until it succeeds, fails for good, or patience is over. Everything here may be repeated.
    async fn patiently<T, F: Future<Output = Try<T>>>(&self, attempt: impl Fn() -> F) -> Result<T> {
        let mut patience = Patience::new(self.0.patience);
        loop {
            match within(attempt()).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(answer) => return Ok(answer),
            }
        }
    }
}

impl Siblings for Postgres {
    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.patiently(|| find(&self.0.readers, &reference)).await
    }

    async fn key(&self, key: Key) -> Result<Kept> {
        self.patiently(|| keep(&self.0.readers, &key)).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        let rows = self.patiently(|| query(&self.0.readers, GROUPS, &[])).await?;
        Ok(rows.iter().map(read_group).collect())
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.patiently(|| add_group(&self.0.readers, &group)).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.patiently(|| write_group(&self.0.readers, SET_GROUP, &group)).await.map(drop)
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.patiently(|| async { execute(&self.0.readers, REMOVE_GROUP, &[&name]).await }).await
    }

    async fn remove(&self, job: JobId) -> Result<Removal> {
        self.patiently(|| remove(&self.0.readers, job)).await
    }

    async fn mark_read(&self, job: JobId) -> Result<()> {
        let key = job.as_uuid();
        self.patiently(|| async { execute(&self.0.readers, MARK_READ, &[&key]).await }).await.map(drop)
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.patiently(|| prunable(&self.0.readers, &prune)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.patiently(|| counts(&self.0.readers)).await
    }

    async fn present(&self) -> Result<Option<Cursor>> {
        self.patiently(|| feed::present(&self.0.readers)).await
    }
}
