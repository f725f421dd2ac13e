//! Lives of owners: registration, and the end of a life whose beat stands still. No clock of the database counts.

use deadpool_postgres::Pool;
use lastword_core::life::{Life, Place};
use lastword_core::{HostId, Incarnation, OwnerId};
use tokio_postgres::Row;
use uuid::Uuid;

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

/// Registers.
pub(super) async fn register(pool: &Pool, witness: &Witness, renew: &Renew) -> Try<Renewed> {
    let known = witness.known();
    let (owner, lease) = (&*renew.owner.0, lease(renew));
    let (host, boot): (&str, &str) = (&renew.place.host.0, &renew.place.boot);
    let rows = change(pool, witness, REGISTER, &[&owner, &host, &boot, &lease]).await?;
    let row = &rows[0];
    if row.get(3) {
        return Err(Error::Taken { owner: renew.owner.clone() }.into());
    }
    let given = row.get::<_, Option<Uuid>>(1).zip(row.get::<_, Option<i64>>(2));
    let (incarnation, place) = given.ok_or_else(|| refusal(renew, row.get(5)))?;
    witness.note(&known, place);
    let incarnation = Incarnation::from_u128(incarnation.as_u128());
    Ok(Renewed { incarnation, beat: 0, news: Vec::new(), settling: row.get(4) })
}

/// Returns the length of a lease as it is stored.
pub(super) fn lease(renew: &Renew) -> i64 {
    i64::try_from(renew.lease_ms).unwrap_or(i64::MAX)
}

/// Returns why a lease was not given, where the longest is `max`.
pub(super) fn refusal(renew: &Renew, max: i64) -> Error {
    let (owner, lease_ms) = (renew.owner.clone(), renew.lease_ms);
    match lease(renew) > max {
        true => Error::LeaseTooLong { owner, lease_ms, max_ms: max.cast_unsigned() },
        false => Error::Lapsed { owner },
    }
}

/// Returns the lives that are not over.
pub(super) async fn lives(pool: &Pool) -> Try<Vec<Life>> {
    Ok(query(pool, LIVES, &[]).await?.iter().map(|row| life(row, 0)).collect())
}

/// Returns the life in a row, whose columns begin at `first`.
pub(super) fn life(row: &Row, first: usize) -> Life {
    let text = |column| row.get::<_, &str>(first + column).into();
    Life {
        incarnation: Incarnation::from_u128(row.get::<_, Uuid>(first).as_u128()),
        owner: OwnerId(text(1)),
        place: Place { host: HostId(text(2)), boot: text(3) },
        beat: row.get::<_, i64>(first + 4).cast_unsigned(),
        lease_ms: row.get::<_, i64>(first + 5).cast_unsigned(),
    }
}

/// Ends a life if its beat is still this one. Called again after its answer was lost, it reports that there was nothing to end.
pub(super) async fn end_life(pool: &Pool, witness: &Witness, life: Incarnation, beat: u64) -> Try<bool> {
    let (life, beat) = (Uuid::from_u128(life.as_u128()), beat.cast_signed());
    let rows = change(pool, witness, END, &[&life, &beat]).await?;
    Ok(rows.first().is_some_and(|row| row.get(1)))
}
