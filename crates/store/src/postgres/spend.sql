, counted as (
    insert into spent (day, name, tokens, money_micros)
    select e.day, s.queue,
        greatest(least(sum(e.tokens), $47::bigint), -$47::bigint)::bigint,
        greatest(least(sum(e.money_micros), $47::bigint), -$47::bigint)::bigint
    from unnest($43::uuid[], $44::bigint[], $45::bigint[], $46::bigint[]) as e (job, day, tokens, money_micros)
    join stored s on s.job = e.job
    group by e.day, s.queue
    -- Two batches lock the rows in one order.
    order by e.day, s.queue
    on conflict (day, name) do update set
        tokens = greatest(least(spent.tokens + excluded.tokens, $47::bigint), -$47::bigint),
        money_micros = greatest(least(spent.money_micros + excluded.money_micros, $47::bigint), -$47::bigint)
)
