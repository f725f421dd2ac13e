//! Owners: registration, and leases on the clock of the database.

use deadpool_postgres::Pool;
use lastword_core::{Incarnation, JobId};
use uuid::Uuid;

use super::batch::job_id;
use super::failure::Try;
use crate::{Error, Renew, Renewed};

/// The longest lease, a hundred years: what fits the database's calendar.
pub(super) const LEASE_MS_MAX: u64 = 100 * 365 * 86_400_000;

const REGISTER: &str = "
    with given as (
        update meta set incarnations = incarnations + 1
        returning (left(instance_first::text, 18) || lpad(to_hex(incarnations), 16, '0'))::uuid as incarnation
    )
    insert into owners (owner, incarnation, until)
    select $1, incarnation, clock_timestamp() + $2::bigint * interval '1 millisecond' from given
    on conflict (owner) do update set incarnation = excluded.incarnation, until = excluded.until
    returning incarnation";

/// Extends the lease and finds the news in one statement, so that a renewal is one round trip.
const RENEW: &str = "
    with renewed as (
        update owners o set until = clock_timestamp() + $3::bigint * interval '1 millisecond'
        from meta m
        where o.owner = $1 and o.incarnation = $2
            and o.incarnation between m.instance_first and m.instance_last
        returning 1
    )
    select (select count(*) from renewed) as renewed, j.job
    from meta left join jobs j on j.news and j.holder_incarnation = $2
    order by j.job";

/// Registers or renews.
pub(super) async fn renew(pool: &Pool, renew: &Renew) -> Try<Renewed> {
    let client = pool.get().await?;
    let owner: &str = &renew.owner.0;
    let lease = renew.lease_ms.min(LEASE_MS_MAX) as i64;
    let Some(given) = renew.incarnation else {
        let statement = client.prepare_cached(REGISTER).await?;
        let incarnation: Uuid = client.query_one(&statement, &[&owner, &lease]).await?.get(0);
        let incarnation = Incarnation::from_u128(incarnation.as_u128());
        return Ok(Renewed { incarnation, news: Vec::new() });
    };
    let statement = client.prepare_cached(RENEW).await?;
    let incarnation = Uuid::from_u128(given.as_u128());
    let rows = client.query(&statement, &[&owner, &incarnation, &lease]).await?;
    let renewed: i64 = rows.first().map_or(0, |row| row.get(0));
    if renewed == 0 {
        return Err(Error::Lapsed { owner: renew.owner.clone() }.into());
    }
    let jobs = rows.iter().filter_map(|row| row.get::<_, Option<Uuid>>(1));
    let news: Vec<JobId> = jobs.map(job_id).collect::<crate::Result<_>>()?;
    Ok(Renewed { incarnation: given, news })
}
