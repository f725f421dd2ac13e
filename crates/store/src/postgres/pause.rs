//! The present instance, and the end of its pause.

use deadpool_postgres::Pool;
use uuid::Uuid;

use super::connect::{change, query};
use super::failure::Try;
use super::identity::with_here;
use super::instance::{first, number};
use super::witness::Witness;
use crate::{Error, Instance};

const INSTANCE: &str = "select instance_first, settling, lease_max_ms from meta";

const SETTLE: &str = with_here!(
    "$3",
    "$4",
    ", settled as (
        update meta set settling = null
        where instance_first = $1 and settling = $2 and exists (select from here)
        returning instance_first, instance_last
    ), gone as (
        delete from lives l using settled s where l.incarnation not between s.instance_first and s.instance_last
    )
    select exists (select from here), exists (select from settled)"
);

/// Returns the present instance.
pub(super) async fn instance(pool: &Pool) -> Try<Instance> {
    let rows = query(pool, INSTANCE, &[]).await?;
    let row = rows.first().ok_or_else(|| {
        Error::Corrupt("it has lost its row in `meta`: restore it from a backup".to_owned())
    })?;
    Ok(instance_of(row.get(0), row.get(1), row.get(2)))
}

/// Returns the instance with this first incarnation, pause and longest lease.
pub(super) fn instance_of(first: Uuid, settling: Option<i64>, lease_max_ms: i64) -> Instance {
    Instance {
        number: number(first),
        settling: settling.map(i64::cast_unsigned),
        lease_max_ms: lease_max_ms.cast_unsigned(),
    }
}

/// Ends the pause of an instance.
pub(super) async fn settle(pool: &Pool, witness: &Witness, instance: &Instance) -> Try<bool> {
    let Some(settling) = instance.settling else { return Ok(false) };
    let first = first(instance.number);
    let rows = change(pool, witness, SETTLE, &[&first, &settling.cast_signed()]).await?;
    Ok(rows.first().is_some_and(|row| row.get(1)))
}
