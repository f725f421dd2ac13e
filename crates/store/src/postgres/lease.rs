//! Owners: registration, and leases on the clock of the database.

use deadpool_postgres::Pool;
use lastword_core::{Incarnation, JobId};
use uuid::Uuid;

use super::batch::job_id;
use super::connect::change;
use super::failure::{Failure, Try};
use super::witness::{Witness, with_here};
use crate::{Error, Renew, Renewed};

/// The longest lease, a hundred years: what fits the database's calendar.
pub(super) const LEASE_MS_MAX: u64 = 100 * 365 * 86_400_000;

const REGISTER: &str = with_here!(
    "$3",
    "$4",
    ", given as (
        update meta set incarnations = incarnations + 1 where exists (select from here)
        returning (left(instance_first::text, 18) || lpad(to_hex(incarnations), 16, '0'))::uuid as incarnation
    ), registered as (
        insert into owners (owner, incarnation, until)
        select $1::text, incarnation, clock_timestamp() + $2::bigint * interval '1 millisecond' from given
        on conflict (owner) do update set incarnation = excluded.incarnation, until = excluded.until
    )
    select exists (select from here), (select incarnation from given)"
);

/// Extends the lease and finds the news in one statement, so that a renewal is one round trip.
const RENEW: &str = with_here!(
    "$4",
    "$5",
    ", renewed as (
        update owners o set until = clock_timestamp() + $3::bigint * interval '1 millisecond'
        from meta m
        where o.owner = $1 and o.incarnation = $2
            and o.incarnation between m.instance_first and m.instance_last
            and exists (select from here)
        returning 1
    )
    select exists (select from here), exists (select from renewed), j.job
    from (values (1)) one left join jobs j on j.news and j.holder_incarnation = $2
    order by j.job"
);

/// Registers or renews.
pub(super) async fn renew(pool: &Pool, witness: &Witness, renew: &Renew) -> Try<Renewed> {
    let owner: &str = &renew.owner.0;
    let lease = renew.lease_ms.min(LEASE_MS_MAX) as i64;
    let Some(given) = renew.incarnation else {
        let rows = change(pool, witness, REGISTER, &[&owner, &lease]).await?;
        let incarnation = rows.first().and_then(|row| row.get::<_, Option<Uuid>>(1));
        let incarnation = incarnation.ok_or_else(|| Failure::Clash("nothing was registered".to_owned()))?;
        let incarnation = Incarnation::from_u128(incarnation.as_u128());
        return Ok(Renewed { incarnation, news: Vec::new() });
    };
    let incarnation = Uuid::from_u128(given.as_u128());
    let rows = change(pool, witness, RENEW, &[&owner, &incarnation, &lease]).await?;
    if !rows.first().is_some_and(|row| row.get(1)) {
        return Err(Error::Lapsed { owner: renew.owner.clone() }.into());
    }
    let jobs = rows.iter().filter_map(|row| row.get::<_, Option<Uuid>>(2));
    let news: Vec<JobId> = jobs.map(job_id).collect::<crate::Result<_>>()?;
    Ok(Renewed { incarnation: given, news })
}
