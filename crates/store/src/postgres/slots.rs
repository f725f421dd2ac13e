//! How many jobs of a group have a slot, counted while the group has a bound. A job that is held has one, unless its agent is idle.
//!
//! A group that is counted has a row in `queues`. An append that changes how many of its jobs are held notes by how much; a claim locks the
//! row, folds the notes into it and takes what is left (`room.sql`). All of it commits with what it counts, so no crash makes it wrong. A
//! group without a bound has no row: its claims and its endings neither count nor wait for each other, and it is counted once when
//! it gets a bound.

use deadpool_postgres::{Pool, Transaction};

use super::connect::query;
use super::failure::Try;
use crate::{Error, Result};

/// Waits for every append and claim under way, each of which locks the table when it begins, and holds up the next ones. So each of them
/// is counted, or sees the row and notes what it changes.
const ALONE: &str = "set local lock_timeout = '2s'; lock table slot_changes in share row exclusive mode";

/// Goes from one holder to the next, and counts the jobs of the group that each has.
const COUNT: &str = concat!(
    include_str!("holders.sql"),
    ", counted as (
        insert into queues (queue, held)
        select $1::text, count(*) from holders h join jobs j on j.holder_incarnation = h.life and j.queue = $1
        where j.phase <> 'idle'
        on conflict (queue) do nothing
        returning 1
    )
    delete from slot_changes where queue = $1 and exists (select from counted)"
);

const COUNT_NO_MORE: &str = "delete from queues where queue = $1";

const MISCOUNTED: &str = "
    select c.queue, c.counted, c.held from (
        select q.queue,
            q.held + (select coalesce(sum(n.change), 0) from slot_changes n where n.queue = q.queue)::bigint as counted,
            (
                select count(*) from jobs j
                where j.queue = q.queue and j.holder_incarnation is not null and j.phase <> 'idle'
            ) as held
        from queues q
    ) c
    where c.counted <> c.held limit 1";

/// Counts the held jobs of a group, and begins to note what changes.
pub(super) async fn count(client: &mut deadpool_postgres::Client, group: &str) -> Try<()> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(ALONE).await?;
    let statement = transaction.prepare_cached(COUNT).await?;
    transaction.execute(&statement, &[&group]).await?;
    Ok(transaction.commit().await?)
}

/// Ends the count of a group that has no bound any more. Notes of appends under way stay, and are removed when it is counted again.
pub(super) async fn count_no_more(transaction: &Transaction<'_>, group: &str) -> Try<()> {
    let statement = transaction.prepare_cached(COUNT_NO_MORE).await?;
    transaction.execute(&statement, &[&group]).await?;
    Ok(())
}

/// Fails if a group does not hold as many jobs as were counted.
pub(super) async fn check_counts(pool: &Pool) -> Try<()> {
    let rows = query(pool, MISCOUNTED, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (group, counted, held): (&str, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let text = format!("{counted} jobs of the group {group} are counted as held, but {held} are");
    Result::Err(Error::Corrupt(text))?
}
