//! Lives of owners: registration, renewal, and the end of a life whose beat stands still. No clock of the database counts.

use deadpool_postgres::Pool;
use lastword_core::life::{Life, Place};
use lastword_core::{HostId, Incarnation, JobId, OwnerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::job_id;
use super::connect::{change, query};
use super::failure::Try;
use super::identity::with_here;
use super::witness::Witness;
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
        where exists (select from here) and not exists (select from elsewhere) and $4::bigint <= lease_max_ms
        returning (left(instance_first::text, 18) || lpad(to_hex(incarnations), 16, '0'))::uuid as incarnation,
            pg_current_xact_id()::text::bigint + feed_offset as place
    ), registered as (
        insert into lives (incarnation, owner, host, boot, beat, lease_ms)
        select incarnation, $1, $2, $3, 0, $4 from given
    )
    select exists (select from here), (select incarnation from given), (select place from given),
        exists (select from elsewhere), m.settling is not null, m.lease_max_ms
    from meta m"
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
            and $3 <= m.lease_max_ms
            and exists (select from here)
        returning l.beat, pg_current_xact_id()::text::bigint + m.feed_offset as place
    )
    select exists (select from here), (select beat from renewed), (select place from renewed),
        m.settling is not null, m.lease_max_ms, j.job
    from meta m left join jobs j on j.news and j.holder_incarnation = $2
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
    let known = witness.known();
    let owner: &str = &renew.owner.0;
    let lease = i64::try_from(renew.lease_ms).unwrap_or(i64::MAX);
    let refused = |max: i64| match lease > max {
        true => Error::LeaseTooLong {
            owner: renew.owner.clone(),
            lease_ms: renew.lease_ms,
            max_ms: max.cast_unsigned(),
        },
        false => Error::Lapsed { owner: renew.owner.clone() },
    };
    let Some(given) = renew.incarnation else {
        let (host, boot): (&str, &str) = (&renew.place.host.0, &renew.place.boot);
        let rows = change(pool, witness, REGISTER, &[&owner, &host, &boot, &lease]).await?;
        let row = &rows[0];
        if row.get(3) {
            return Err(Error::Taken { owner: renew.owner.clone() }.into());
        }
        let given = row.get::<_, Option<Uuid>>(1).zip(row.get::<_, Option<i64>>(2));
        let (incarnation, place) = given.ok_or_else(|| refused(row.get(5)))?;
        witness.note(&known, place);
        let incarnation = Incarnation::from_u128(incarnation.as_u128());
        return Ok(Renewed { incarnation, beat: 0, news: Vec::new(), settling: row.get(4) });
    };
    let incarnation = Uuid::from_u128(given.as_u128());
    let rows = change(pool, witness, RENEW, &[&owner, &incarnation, &lease]).await?;
    let row = &rows[0];
    let renewed = row.get::<_, Option<i64>>(1).zip(row.get::<_, Option<i64>>(2));
    let (beat, place) = renewed.ok_or_else(|| refused(row.get(4)))?;
    witness.note(&known, place);
    let jobs = rows.iter().filter_map(|row| row.get::<_, Option<Uuid>>(5));
    let news: Vec<JobId> = jobs.map(job_id).collect::<crate::Result<_>>()?;
    Ok(Renewed { incarnation: given, beat: beat.cast_unsigned(), news, settling: row.get(3) })
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
