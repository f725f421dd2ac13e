with here as materialized (
    select pg_current_xact_id()::text::bigint + m.feed_offset as place, m.instance_first, m.instance_last, m.settling
    from meta m join migrations b on b.step = 1
    -- Nothing is stored in a journal that is not the one that was opened, or that has not come as far.
    where concat_ws('.', m.instance_first, b.tableoid, b.xmin) = $35::text
        and pg_snapshot_xmax(pg_current_snapshot())::text::bigint + m.feed_offset > $36::bigint
)
