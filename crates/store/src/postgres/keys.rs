//! Keys in PostgreSQL.

use deadpool_postgres::Pool;
use lastword_core::Timestamp;
use uuid::Uuid;

use super::Postgres;
use super::batch::{job_id, number};
use super::connect::{Value, change};
use super::failure::{Failure, Try};
use super::identity::with_here;
use super::witness::Witness;
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

/// A stored row wins. One that another transaction is storing is waited for, and read by the next try. An old key whose job is stored gets a
/// new date: it would be looked at again and again.
const KEEP: &str = with_here!(
    "$7",
    "$8",
    ", old as (
        select key, exists (select 1 from jobs where jobs.job = keys.job) as stands from keys
        where at < $5 and key <> $1 and exists (select from here) order by at, key limit $6 for update of keys skip locked
    ), swept as (
        delete from keys using old where keys.key = old.key and not old.stands
    ), renewed as (
        update keys set at = $4 from old where keys.key = old.key and old.stands
    ), made as (
        insert into keys (key, fingerprint, job, at)
        select $1::text, $2::uuid, $3::uuid, $4::bigint from here
        on conflict (key) do update set fingerprint = $2, job = $3, at = $4, removed = null
        where keys.at < $5 and not exists (select 1 from jobs where jobs.job = keys.job)
        returning job, fingerprint
    )
    select exists (select from here), found.* from (values (1)) one left join (
        select job, fingerprint, false, null from made
        union all
        select job, fingerprint, true, removed from keys where key = $1 and not exists (select 1 from made)
    ) found (job, fingerprint, replayed, removed) on true"
);

async fn record(pool: &Pool, witness: &Witness, wanted: &Key) -> Try<KeyRecord> {
    let (fingerprint, job) = (Uuid::from_u128(wanted.fingerprint), wanted.job.as_uuid());
    let (now, old) = (number(wanted.now.0), number(wanted.now.0.saturating_sub(KEY_MS)));
    let values: [Value<'_>; 6] = [&wanted.key, &fingerprint, &job, &now, &old, &i64::from(SWEPT_MAX)];
    let stored = change(pool, witness, KEEP, &values).await?;
    let stored = stored.first().and_then(|row| Some((row, row.get::<_, Option<Uuid>>(1)?)));
    let Some((row, job)) = stored else {
        return Err(Failure::Clash("another request with this key is being stored".to_owned()));
    };
    let fingerprint: Uuid = row.get(2);
    let removed: Option<i64> = row.get(4);
    Ok(KeyRecord {
        job: job_id(job)?,
        fingerprint: fingerprint.as_u128(),
        replayed: row.get(3),
        removed: removed.map(|at| Timestamp(at.cast_unsigned())),
    })
}

impl Keys for Postgres {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.patiently(|| record(&self.0.readers, &self.0.witness, &key)).await
    }
}
