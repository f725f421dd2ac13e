//! Lives of owners: registration, renewal, and the end of a life whose beat stands still. No clock of the database counts.

use deadpool_postgres::Pool;
use lastword_core::life::{Life, Place};
use lastword_core::{HostId, Incarnation, JobId, OwnerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::job_id;
use super::connect::{change, query};
use super::failure::{Failure, Try};
use super::witness::{Witness, with_here};
use crate::{Error, Renew, Renewed};

/// An owner has one place: a life elsewhere must be over before another begins. Two that register at once both begin, and the later
/// one is the life of that name: the other cannot renew.
const REGISTER: &str = with_here!(
    "$5",
    "$6",
    ", elsewhere as (
        select from lives l cross join meta m
        where l.owner = $1::text and (l.host, l.boot) <> ($2::text, $3::text)
            and l.incarnation between m.instance_first and m.instance_last
    ), given as (
        update meta set incarnations = incarnations + 1
        where exists (select from here) and not exists (select from elsewhere)
        returning (left(instance_first::text, 18) || lpad(to_hex(incarnations), 16, '0'))::uuid as incarnation
    ), registered as (
        insert into lives (incarnation, owner, host, boot, beat, lease_ms)
        select incarnation, $1, $2, $3, 0, $4::bigint from given
    )
    select exists (select from here), (select incarnation from given), exists (select from elsewhere)"
);

/// Renews the lease and finds the news in one statement, so that a renewal is one round trip.
const RENEW: &str = with_here!(
    "$4",
    "$5",
    ", renewed as (
        update lives l set beat = l.beat + 1, lease_ms = $3::bigint
        from meta m
        where l.incarnation = $2 and l.owner = $1
            and l.incarnation between m.instance_first and m.instance_last
            and not exists (select from lives n where n.owner = l.owner and n.incarnation > l.incarnation)
            and exists (select from here)
        returning l.beat
    )
    select exists (select from here), (select beat from renewed), j.job
    from (values (1)) one left join jobs j on j.news and j.holder_incarnation = $2
    order by j.job"
);

const LIVES: &str = "
    select l.incarnation, l.owner, l.host, l.boot, l.beat, l.lease_ms from lives l cross join meta m
    where l.incarnation between m.instance_first and m.instance_last order by l.incarnation";

/// A renewal that commits first has changed the beat, and the life stays.
const END: &str = with_here!(
    "$3",
    "$4",
    ", ended as (
        delete from lives where incarnation = $1 and beat = $2 and exists (select from here) returning 1
    )
    select exists (select from here), exists (select from ended)"
);

/// Registers or renews.
pub(super) async fn renew(pool: &Pool, witness: &Witness, renew: &Renew) -> Try<Renewed> {
    let owner: &str = &renew.owner.0;
    let lease = i64::try_from(renew.lease_ms).unwrap_or(i64::MAX);
    let Some(given) = renew.incarnation else {
        let (host, boot): (&str, &str) = (&renew.place.host.0, &renew.place.boot);
        let rows = change(pool, witness, REGISTER, &[&owner, &host, &boot, &lease]).await?;
        if rows.first().is_some_and(|row| row.get(2)) {
            return Err(Error::Taken { owner: renew.owner.clone() }.into());
        }
        let incarnation = rows.first().and_then(|row| row.get::<_, Option<Uuid>>(1));
        let incarnation = incarnation.ok_or_else(|| Failure::Clash("nothing was registered".to_owned()))?;
        let incarnation = Incarnation::from_u128(incarnation.as_u128());
        return Ok(Renewed { incarnation, beat: 0, news: Vec::new() });
    };
    let incarnation = Uuid::from_u128(given.as_u128());
    let rows = change(pool, witness, RENEW, &[&owner, &incarnation, &lease]).await?;
    let beat = rows.first().and_then(|row| row.get::<_, Option<i64>>(1));
    let Some(beat) = beat else { return Err(Error::Lapsed { owner: renew.owner.clone() }.into()) };
    let jobs = rows.iter().filter_map(|row| row.get::<_, Option<Uuid>>(2));
    let news: Vec<JobId> = jobs.map(job_id).collect::<crate::Result<_>>()?;
    Ok(Renewed { incarnation: given, beat: beat.cast_unsigned(), news })
}

/// Returns the lives that are not over.
pub(super) async fn lives(pool: &Pool) -> Try<Vec<Life>> {
    Ok(query(pool, LIVES, &[]).await?.iter().map(life).collect())
}

fn life(row: &Row) -> Life {
    let text = |column| row.get::<_, &str>(column).into();
    Life {
        incarnation: Incarnation::from_u128(row.get::<_, Uuid>(0).as_u128()),
        owner: OwnerId(text(1)),
        place: Place { host: HostId(text(2)), boot: text(3) },
        beat: row.get::<_, i64>(4).cast_unsigned(),
        lease_ms: row.get::<_, i64>(5).cast_unsigned(),
    }
}

/// Ends a life if its beat is still this one. Called again after its answer was lost, it reports that there was nothing to end.
pub(super) async fn end_life(pool: &Pool, witness: &Witness, life: Incarnation, beat: u64) -> Try<bool> {
    let (life, beat) = (Uuid::from_u128(life.as_u128()), beat.cast_signed());
    let rows = change(pool, witness, END, &[&life, &beat]).await?;
    Ok(rows.first().is_some_and(|row| row.get(1)))
}
