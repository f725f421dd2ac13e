//! `ready`: the lines in which a job can be claimed now. Costs a few index probes for each line, however many jobs wait in it.

use deadpool_postgres::Pool;
use lastword_core::Timestamp;

use super::batch::number;
use super::connect::query;
use super::failure::Try;
use super::options::Clock;
use crate::Line;

const READY: &str = "
    with recursive sets (queue, labels) as (
        (select r.queue, r.labels from ready r order by r.queue, r.labels limit 1)
        union all
        -- From one line to the next without reading the jobs in it.
        select n.queue, n.labels from sets s cross join lateral (
            select r.queue, r.labels from ready r where (r.queue, r.labels) > (s.queue, s.labels)
            order by r.queue, r.labels limit 1
        ) n
    ), levels (queue, labels, priority) as (
        select s.queue, s.labels, (
            select r.priority from ready r where r.queue = s.queue and r.labels = s.labels
            order by r.priority desc limit 1
        ) from sets s
        union all
        select l.queue, l.labels, (
            select r.priority from ready r
            where r.queue = l.queue and r.labels = l.labels and r.priority < l.priority
            order by r.priority desc limit 1
        ) from levels l where l.priority is not null
    )
    select distinct l.queue, l.labels
    from levels l
    cross join lateral (
        select r.due from ready r where r.queue = l.queue and r.labels = l.labels and r.priority = l.priority
        order by r.due, r.job limit 1
    ) first
    left join groups g on g.name = l.queue
    where first.due <= coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
        and not coalesce(g.paused, false)
    order by l.queue, l.labels";

/// Returns the lines in which a job can be claimed, by the clock that claims use.
pub(super) async fn ready(pool: &Pool, clock: Clock, now: Timestamp) -> Try<Vec<Line>> {
    let now = (clock == Clock::Caller).then(|| number(now.0));
    let rows = query(pool, READY, &[&now]).await?;
    Ok(rows.iter().map(|row| Line { group: row.get(0), labels: row.get(1) }).collect())
}
