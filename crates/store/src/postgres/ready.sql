with recursive sets (labels) as (
    (select r.labels from ready r where r.queue = $1 order by r.labels limit 1)
    union all
    -- From one set of labels to the next without reading the jobs that need them.
    select (select r.labels from ready r where r.queue = $1 and r.labels > s.labels order by r.labels limit 1)
    from sets s where s.labels is not null
), levels (labels, priority) as (
    select s.labels, (
        select r.priority from ready r where r.queue = $1 and r.labels = s.labels order by r.priority desc limit 1
    ) from sets s where string_to_array(s.labels, ' ') <@ $9::text[]
    union all
    select l.labels, (
        select r.priority from ready r where r.queue = $1 and r.labels = l.labels and r.priority < l.priority
        order by r.priority desc limit 1
    ) from levels l where l.priority is not null
), lines as materialized (
    select l.labels, l.priority, l.labels = $10 and l.priority = $4 as marked
    from levels l
    cross join lateral (
        select r.due, r.job from ready r
        where r.queue = $1 and r.labels = l.labels and r.priority = l.priority and r.due <= $2
            and (r.due, r.job) >= (
                case when l.labels = $10 and l.priority = $4 then $5::bigint else 0 end,
                case when l.labels = $10 and l.priority = $4 then $6::uuid
                    else '00000000-0000-0000-0000-000000000000' end
            )
        order by r.due, r.job limit 1
    ) first
    where l.priority is not null
    order by l.priority desc, first.due, first.job
)
-- Line by line, and no further than needed: what is not due yet is stepped over at each.
select c.job, c.priority, c.due, l.labels
from lines l
cross join lateral (
    select r.job, r.priority, r.due
    from ready r join jobs j on j.job = r.job
    where r.queue = $1 and r.labels = l.labels and r.priority = l.priority and r.due <= $2
        and (r.due, r.job) >= (
            case when l.marked then $5 else 0 end,
            case when l.marked then $6 else '00000000-0000-0000-0000-000000000000' end
        )
        and r.job <> all ($7::uuid[])
        and j.least_reader <= $8
        and not exists (
            select 1 from conversations c
            where c.provider = j.provider and c.reference = j.reference and c.job <> j.job
        )
    order by r.due, r.job
    limit $3
    for update of r, j skip locked
) c
limit $3
