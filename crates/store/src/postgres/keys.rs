//! Keys in PostgreSQL.

use deadpool_postgres::Pool;
use lastword_core::Timestamp;
use uuid::Uuid;

use super::Postgres;
use super::batch::{job_id, number};
use super::connect::{Value, query};
use super::failure::{Failure, Try};
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

/// A stored row wins. One that another transaction is storing is waited for, and read by the next try. An old key whose job is stored gets a
/// new date: it would be looked at again and again.
const KEEP: &str = "
    with old as (
        select key, exists (select 1 from jobs where jobs.job = keys.job) as stands from keys
        where at < $5 and key <> $1 order by at, key limit $6 for update of keys skip locked
    ), swept as (
        delete from keys using old where keys.key = old.key and not old.stands
    ), renewed as (
        update keys set at = $4 from old where keys.key = old.key and old.stands
    ), made as (
        insert into keys (key, fingerprint, job, at) values ($1, $2, $3, $4)
        on conflict (key) do update set fingerprint = $2, job = $3, at = $4, removed = null
        where keys.at < $5 and not exists (select 1 from jobs where jobs.job = keys.job)
        returning job, fingerprint
    )
    select job, fingerprint, false, null from made
    union all
    select job, fingerprint, true, removed from keys where key = $1 and not exists (select 1 from made)";

async fn record(pool: &Pool, wanted: &Key) -> Try<KeyRecord> {
    let (fingerprint, job) = (Uuid::from_u128(wanted.fingerprint), wanted.job.as_uuid());
    let (now, old) = (number(wanted.now.0), number(wanted.now.0.saturating_sub(KEY_MS)));
    let values: [Value<'_>; 6] = [&wanted.key, &fingerprint, &job, &now, &old, &i64::from(SWEPT_MAX)];
    let stored = query(pool, KEEP, &values).await?;
    let Some(row) = stored.first() else {
        return Err(Failure::Clash("another request with this key is being stored".to_owned()));
    };
    let fingerprint: Uuid = row.get(1);
    let removed: Option<i64> = row.get(3);
    Ok(KeyRecord {
        job: job_id(row.get(0))?,
        fingerprint: fingerprint.as_u128(),
        replayed: row.get(2),
        removed: removed.map(|at| Timestamp(at.cast_unsigned())),
    })
}

impl Keys for Postgres {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.patiently(|| record(&self.0.readers, &key)).await
    }
}
