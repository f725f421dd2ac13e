//! Keys in PostgreSQL.

use deadpool_postgres::Pool;
use uuid::Uuid;

use super::Postgres;
use super::batch::{job_id, number};
use super::connect::{Value, query};
use super::failure::{Failure, Try};
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

/// A stored row wins. One that another transaction is storing is waited for, and read by the next try.
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

async fn record(pool: &Pool, wanted: &Key) -> Try<KeyRecord> {
    let (fingerprint, job) = (Uuid::from_u128(wanted.fingerprint), wanted.job.as_uuid());
    let (now, old) = (number(wanted.now.0), number(wanted.now.0.saturating_sub(KEY_MS)));
    let values: [Value<'_>; 6] = [&wanted.key, &fingerprint, &job, &now, &old, &i64::from(SWEPT_MAX)];
    let stored = query(pool, KEEP, &values).await?;
    let Some(row) = stored.first() else {
        return Err(Failure::Clash("another request with this key is being stored".to_owned()));
    };
    let fingerprint: Uuid = row.get(1);
    Ok(KeyRecord { job: job_id(row.get(0))?, fingerprint: fingerprint.as_u128(), replayed: row.get(2) })
}

impl Keys for Postgres {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.patiently(|| record(&self.0.readers, &key)).await
    }
}
