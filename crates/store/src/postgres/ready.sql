-- The line of the mark is known, and all of its rows before the mark are deleted ones: no step reads it from its beginning.
with recursive sets (labels, is_below) as (
    (select r.labels, true from ready r where r.queue = $1 and r.labels < $10 order by r.labels limit 1)
    union all
    (select r.labels, false from ready r where r.queue = $1 and r.labels > $10 order by r.labels limit 1)
    union all
    -- From one set of labels to the next without reading the jobs that need them.
    select case
        when s.is_below then (
            select r.labels from ready r where r.queue = $1 and r.labels > s.labels and r.labels < $10
            order by r.labels limit 1
        )
        else (select r.labels from ready r where r.queue = $1 and r.labels > s.labels order by r.labels limit 1)
    end, s.is_below
    from sets s where s.labels is not null
), levels (labels, priority, is_above) as (
    (select $10, $4, null::boolean where string_to_array($10, ' ') <@ $9::text[])
    union all
    (
        select $10, r.priority, true from ready r
        where r.queue = $1 and r.labels = $10 and r.priority > $4 and string_to_array($10, ' ') <@ $9
        order by r.priority desc limit 1
    )
    union all
    (
        select $10, r.priority, false from ready r
        where r.queue = $1 and r.labels = $10 and r.priority < $4 and string_to_array($10, ' ') <@ $9
        order by r.priority desc limit 1
    )
    union all
    select s.labels, (
        select r.priority from ready r where r.queue = $1 and r.labels = s.labels order by r.priority desc limit 1
    ), false
    from sets s where string_to_array(s.labels, ' ') <@ $9
    union all
    select l.labels, case
        when l.is_above then (
            select r.priority from ready r
            where r.queue = $1 and r.labels = l.labels and r.priority < l.priority and r.priority > $4
            order by r.priority desc limit 1
        )
        else (
            select r.priority from ready r where r.queue = $1 and r.labels = l.labels and r.priority < l.priority
            order by r.priority desc limit 1
        )
    end, l.is_above
    from levels l where l.priority is not null and l.is_above is not null
), lines as materialized (
    select l.labels, l.priority, l.is_above is null as marked
    from levels l
    cross join lateral (
        select r.due, r.job from ready r
        where r.queue = $1 and r.labels = l.labels and r.priority = l.priority and r.due <= $2
            and (r.due, r.job) >= (
                case when l.is_above is null then $5::bigint else 0 end,
                case when l.is_above is null then $6::uuid else '00000000-0000-0000-0000-000000000000' end
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
