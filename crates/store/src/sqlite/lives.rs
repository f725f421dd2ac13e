//! Lives in SQL: registers one or renews its lease, finds held jobs with news, and ends a life whose beat stands still.
//!
//! One process has the file locked, so a life in another boot of its host is over at once: no tree outlives a boot.

use lastword_core::life::{Life, Place};
use lastword_core::{HostId, Incarnation, OwnerId};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::job_id;
use super::failure::failed;
use crate::{Error, Renew, Renewed, Result};

/// Registers an owner, or renews the lease of its present life.
pub(super) fn renew(connection: &Connection, instance: u64, renew: &Renew) -> Result<Renewed> {
    let Some(given) = renew.incarnation else { return register(connection, instance, renew) };
    if present(connection, &renew.owner.0)? != Some(given) || given.instance != instance {
        return Err(Error::Lapsed { owner: renew.owner.clone() });
    }
    const UPDATE: &str =
        "update lives set beat = beat + 1, lease_ms = ?2 where incarnation = ?1 returning beat";
    let mut update = connection.prepare_cached(UPDATE).map_err(failed)?;
    let beat = update.query_row(params![bytes(given), lease(renew)], |row| row.get(0)).map_err(failed)?;
    Ok(Renewed { incarnation: given, beat, news: news(connection, given)?, settling: false })
}

fn register(connection: &Connection, instance: u64, renew: &Renew) -> Result<Renewed> {
    const OTHER_BOOTS: &str = "delete from lives where host = ?1 and boot <> ?2";
    const INSERT: &str = "insert into lives (incarnation, owner, host, boot, beat, lease_ms) \
         values (?1, ?2, ?3, ?4, 0, ?5)";
    let incarnation = Incarnation { instance, number: next_number(connection)? };
    let Place { host, boot } = &renew.place;
    let mut delete = connection.prepare_cached(OTHER_BOOTS).map_err(failed)?;
    delete.execute(params![&*host.0, &**boot]).map_err(failed)?;
    let mut insert = connection.prepare_cached(INSERT).map_err(failed)?;
    let values = params![bytes(incarnation), &*renew.owner.0, &*host.0, &**boot, lease(renew)];
    insert.execute(values).map_err(failed)?;
    Ok(Renewed { incarnation, beat: 0, news: Vec::new(), settling: false })
}

/// Returns the newest life of an owner.
pub(super) fn present(connection: &Connection, owner: &str) -> Result<Option<Incarnation>> {
    const SELECT: &str = "select incarnation from lives where owner = ?1 order by incarnation desc limit 1";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let present = select.query_row([owner], |row| row.get(0).map(incarnation)).optional();
    present.map_err(failed)
}

/// Returns the lives that are not over.
pub(super) fn lives(connection: &Connection) -> Result<Vec<Life>> {
    const SELECT: &str =
        "select incarnation, owner, host, boot, beat, lease_ms from lives order by incarnation";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let text = |row: &rusqlite::Row<'_>, column| row.get::<_, String>(column).map(Into::into);
    let lives = select.query_map([], |row| {
        Ok(Life {
            incarnation: incarnation(row.get(0)?),
            owner: OwnerId(text(row, 1)?),
            place: Place { host: HostId(text(row, 2)?), boot: text(row, 3)? },
            beat: row.get(4)?,
            lease_ms: row.get(5)?,
        })
    });
    lives.and_then(Iterator::collect).map_err(failed)
}

/// Ends a life if its beat is still this one.
pub(super) fn end_life(connection: &Connection, life: Incarnation, beat: u64) -> Result<bool> {
    const DELETE: &str = "delete from lives where incarnation = ?1 and beat = ?2";
    let mut delete = connection.prepare_cached(DELETE).map_err(failed)?;
    let ended = delete.execute(params![bytes(life), i64::try_from(beat).unwrap_or(i64::MAX)]);
    Ok(ended.map_err(failed)? > 0)
}

fn lease(renew: &Renew) -> i64 {
    i64::try_from(renew.lease_ms).unwrap_or(i64::MAX)
}

fn bytes(incarnation: Incarnation) -> [u8; 16] {
    incarnation.as_u128().to_be_bytes()
}

fn incarnation(bytes: [u8; 16]) -> Incarnation {
    Incarnation::from_u128(u128::from_be_bytes(bytes))
}

fn next_number(connection: &Connection) -> Result<u64> {
    const UPDATE: &str = "update meta set incarnations = incarnations + 1 returning incarnations";
    let mut update = connection.prepare_cached(UPDATE).map_err(failed)?;
    update.query_row([], |row| row.get(0)).map_err(failed)
}

fn news(connection: &Connection, incarnation: Incarnation) -> Result<Vec<lastword_core::JobId>> {
    const SELECT: &str = "select job from jobs indexed by jobs_news \
         where news = 1 and holder_incarnation = ?1 order by job";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let jobs = select.query_map([bytes(incarnation)], |row| row.get(0));
    let jobs: Vec<[u8; 16]> = jobs.and_then(Iterator::collect).map_err(failed)?;
    jobs.into_iter().map(job_id).collect()
}
