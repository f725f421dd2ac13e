with recursive lives (life) as (
    (
        select holder_incarnation from jobs where holder_incarnation is not null
        order by holder_incarnation limit 1
    )
    union all
    -- From one holder to the next without reading every job they hold.
    select (
        select j.holder_incarnation from jobs j where j.holder_incarnation > l.life
        order by j.holder_incarnation limit 1
    ) from lives l where l.life is not null
), over as materialized (
    select l.life from lives l cross join meta m
    where l.life is not null
        and (
            l.life not between m.instance_first and m.instance_last
            or not exists (
                select 1 from owners o
                where o.incarnation = l.life
                    and o.until + $3::bigint * interval '1 millisecond' > clock_timestamp()
            )
        )
)
-- A later incarnation of the owner has a later lease, so its end is the end of all before it.
select j.job, w.owner is null or w.until + $3::bigint * interval '1 millisecond' <= clock_timestamp() as lease_over
from over o join jobs j on j.holder_incarnation = o.life
left join owners w on w.owner = j.holder_owner
where j.job <> all ($2::uuid[])
order by j.job
limit $1
for update of j skip locked
