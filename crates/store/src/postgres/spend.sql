, counted as (
    insert into spent (day, name, tokens, money_micros)
    select e.day, s.queue,
        greatest(least(sum(e.tokens), $49::bigint), -$49::bigint)::bigint,
        greatest(least(sum(e.money_micros), $49::bigint), -$49::bigint)::bigint
    from unnest($45::uuid[], $46::bigint[], $47::bigint[], $48::bigint[]) as e (job, day, tokens, money_micros)
    join stored s on s.job = e.job
    group by e.day, s.queue
    -- Two batches lock the rows in one order.
    order by e.day, s.queue
    on conflict (day, name) do update set
        tokens = greatest(least(spent.tokens + excluded.tokens, $49::bigint), -$49::bigint),
        money_micros = greatest(least(spent.money_micros + excluded.money_micros, $49::bigint), -$49::bigint)
)
