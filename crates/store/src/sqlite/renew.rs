//! `renew` in SQL: registers or extends a lease, and finds held jobs with news.

use lastword_core::Incarnation;
use rusqlite::{Connection, OptionalExtension, params};

use super::append::{job_id, moment};
use super::failure::failed;
use crate::{Error, Renew, Renewed, Result};

/// Registers an owner, or extends its lease if its incarnation is still the present one.
pub(super) fn renew(connection: &Connection, instance: u64, renew: &Renew) -> Result<Renewed> {
    const STORE: &str = "insert into owners (owner, incarnation, until) values (?1, ?2, ?3) \
         on conflict (owner) do update set incarnation = excluded.incarnation, until = excluded.until";
    let incarnation = match renew.incarnation {
        None => Incarnation { instance, number: next_number(connection)? },
        Some(given) if known(connection, renew)? == Some(given) && given.instance == instance => given,
        Some(_) => return Err(Error::Lapsed { owner: renew.owner.clone() }),
    };
    let until = moment(renew.now.plus_ms(renew.lease_ms));
    let mut store = connection.prepare_cached(STORE).map_err(failed)?;
    store.execute(params![&*renew.owner.0, bytes(incarnation), until]).map_err(failed)?;
    Ok(Renewed { incarnation, news: news(connection, incarnation)?, settling: false })
}

fn bytes(incarnation: Incarnation) -> [u8; 16] {
    incarnation.as_u128().to_be_bytes()
}

fn known(connection: &Connection, renew: &Renew) -> Result<Option<Incarnation>> {
    const SELECT: &str = "select incarnation from owners where owner = ?1";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let known = select.query_row([&*renew.owner.0], |row| row.get(0)).optional().map_err(failed)?;
    Ok(known.map(|bytes| Incarnation::from_u128(u128::from_be_bytes(bytes))))
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
