with recursive levels (priority) as (
    (select r.priority from ready r where r.queue = $1 order by r.priority desc limit 1)
    union all
    select (
        select r.priority from ready r where r.queue = $1 and r.priority < l.priority order by r.priority desc limit 1
    ) from levels l where l.priority is not null
)
-- Level by level, highest first, and no further than needed: what is not due yet is stepped over at each.
select c.job, c.priority, c.due
from levels l
cross join lateral (
    select r.job, r.priority, r.due
    from ready r join jobs j on j.job = r.job
    where r.queue = $1 and r.priority = l.priority and r.due <= $2
        and (r.due, r.job) >= (
            case when l.priority = $4 then $5::bigint else 0 end,
            case when l.priority = $4 then $6::uuid else '00000000-0000-0000-0000-000000000000' end
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
where l.priority is not null
limit $3
