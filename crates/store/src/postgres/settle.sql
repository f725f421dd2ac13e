select
    coalesce(j.version, 0) as version, j.holder_owner, j.holder_incarnation, j.holder_epoch,
    j.outcome is not null as ended, e.append, m.instance_first, m.settling is not null as settling,
    concat_ws('.', m.instance_first, b.tableoid, b.xmin) as identity,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint + m.feed_offset - 1 as newest
from unnest($1::uuid[], $2::bigint[]) with ordinality as i (job, expected, place)
cross join meta m
join migrations b on b.step = 1
left join jobs j on j.job = i.job
left join events e on e.job = i.job and e.job >= {from} and e.job < {to} and e.seq = i.expected + 1
order by i.place
