//! Owners: registration, and leases on the clock of the database.

use deadpool_postgres::Pool;
use lastword_core::{Incarnation, JobId};
use uuid::Uuid;

use super::batch::job_id;
use super::connect::change;
use super::failure::Try;
use super::identity::with_here;
use super::witness::Witness;
use crate::{Error, Renew, Renewed};

/// The longest lease, a hundred years: what fits the database's calendar.
pub(super) const LEASE_MS_MAX: u64 = 100 * 365 * 86_400_000;

const REGISTER: &str = with_here!(
    "$3",
    "$4",
    ", given as (
        update meta set incarnations = incarnations + 1
        where exists (select from here) and $2::bigint <= lease_max_ms
        returning (left(instance_first::text, 18) || lpad(to_hex(incarnations), 16, '0'))::uuid as incarnation,
            pg_current_xact_id()::text::bigint + feed_offset as place
    ), registered as (
        insert into owners (owner, incarnation, until)
        select $1::text, incarnation, clock_timestamp() + $2::bigint * interval '1 millisecond' from given
        on conflict (owner) do update set incarnation = excluded.incarnation, until = excluded.until
    )
    select exists (select from here), (select incarnation from given), (select place from given),
        m.settling is not null, m.lease_max_ms
    from meta m"
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
            and $3::bigint <= m.lease_max_ms
            and exists (select from here)
        returning pg_current_xact_id()::text::bigint + m.feed_offset as place
    )
    select exists (select from here), (select place from renewed), m.settling is not null, m.lease_max_ms, j.job
    from meta m left join jobs j on j.news and j.holder_incarnation = $2
    order by j.job"
);

/// Registers or renews.
pub(super) async fn renew(pool: &Pool, witness: &Witness, renew: &Renew) -> Try<Renewed> {
    let owner: &str = &renew.owner.0;
    let lease = renew.lease_ms.min(LEASE_MS_MAX) as i64;
    let known = witness.known();
    let refused = |max: i64| match lease > max {
        true => Error::LeaseTooLong {
            owner: renew.owner.clone(),
            lease_ms: renew.lease_ms,
            max_ms: max.cast_unsigned(),
        },
        false => Error::Lapsed { owner: renew.owner.clone() },
    };
    let Some(given) = renew.incarnation else {
        let rows = change(pool, witness, REGISTER, &[&owner, &lease]).await?;
        let row = &rows[0];
        let given = row.get::<_, Option<Uuid>>(1).zip(row.get::<_, Option<i64>>(2));
        let (incarnation, place) = given.ok_or_else(|| refused(row.get(4)))?;
        witness.note(&known, place);
        let incarnation = Incarnation::from_u128(incarnation.as_u128());
        return Ok(Renewed { incarnation, news: Vec::new(), settling: row.get(3) });
    };
    let incarnation = Uuid::from_u128(given.as_u128());
    let rows = change(pool, witness, RENEW, &[&owner, &incarnation, &lease]).await?;
    let row = &rows[0];
    let place = row.get::<_, Option<i64>>(1).ok_or_else(|| refused(row.get(3)))?;
    witness.note(&known, place);
    let jobs = rows.iter().filter_map(|row| row.get::<_, Option<Uuid>>(4));
    let news: Vec<JobId> = jobs.map(job_id).collect::<crate::Result<_>>()?;
    Ok(Renewed { incarnation: given, news, settling: row.get(2) })
}
