//! Keys in SQL.

use lastword_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use super::append::{job_id, key, moment};
use super::failure::{execute, failed};
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

fn record(connection: &Connection, wanted: &Key) -> Result<KeyRecord> {
    // A key whose job is stored gets a new date: it would be looked at again and again. The key itself comes first: the sweep may leave it for
    // later.
    const RENEW: &str = "update keys set at = ?2 where key in \
         (select key from keys where at < ?1 order by at, key limit ?3) \
         and exists (select 1 from jobs where jobs.job = keys.job)";
    const EXPIRE: &str = "delete from keys where key = ?1 and at < ?2 \
         and not exists (select 1 from jobs where jobs.job = keys.job)";
    const SWEEP: &str = "delete from keys where key in \
         (select key from keys where at < ?1 order by at, key limit ?2) \
         and not exists (select 1 from jobs where jobs.job = keys.job)";
    const SELECT: &str = "select job, fingerprint, removed from keys where key = ?1";
    const INSERT: &str = "insert into keys (key, fingerprint, job, at) values (?1, ?2, ?3, ?4)";
    let old = moment(Timestamp(wanted.now.0.saturating_sub(KEY_MS)));
    execute(connection, EXPIRE, params![wanted.key, old])?;
    execute(connection, RENEW, params![old, moment(wanted.now), SWEPT_MAX])?;
    execute(connection, SWEEP, params![old, SWEPT_MAX])?;
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let known =
        select.query_row([&wanted.key], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<i64>>(2)?)));
    if let Some((job, fingerprint, removed)) = known.optional().map_err(failed)? {
        let (job, fingerprint) = (job_id(job)?, u128::from_be_bytes(fingerprint));
        let removed = removed.map(|at| Timestamp(at.cast_unsigned()));
        return Ok(KeyRecord { job, fingerprint, replayed: true, removed });
    }
    let values = params![wanted.key, wanted.fingerprint.to_be_bytes(), key(wanted.job), moment(wanted.now)];
    execute(connection, INSERT, values)?;
    Ok(KeyRecord { job: wanted.job, fingerprint: wanted.fingerprint, replayed: false, removed: None })
}

impl Keys for Sqlite {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.0.writer.change(move |connection| record(connection, &key)).await
    }
}
