, gone as materialized (
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
