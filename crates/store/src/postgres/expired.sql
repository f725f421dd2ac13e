with recursive holders (life) as (
    (
        select holder_incarnation from jobs where holder_incarnation is not null
        order by holder_incarnation limit 1
    )
    union all
    -- From one holder to the next without reading every job they hold.
    select (
        select j.holder_incarnation from jobs j where j.holder_incarnation > h.life
        order by j.holder_incarnation limit 1
    ) from holders h where h.life is not null
), gone as materialized (
    select h.life, l.host, l.boot
    from holders h cross join meta m
    left join lives l on l.incarnation = h.life and l.incarnation between m.instance_first and m.instance_last
    where h.life is not null
        and (
            l.incarnation is null
            -- Replaced by a later life of the same owner. The number of an earlier instance may be higher.
            or exists (
                select from lives n
                where n.owner = l.owner and n.incarnation > l.incarnation and n.incarnation <= m.instance_last
            )
        )
)
select j.job, g.host, g.boot
from gone g join jobs j on j.holder_incarnation = g.life
where j.job <> all ($2::uuid[])
order by j.job
limit $1
for update of j skip locked
