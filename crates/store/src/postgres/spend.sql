, counted as (
    insert into spent (day, name, tokens, money_micros)
    select e.day, s.queue, sum(e.tokens)::bigint, sum(e.money_micros)::bigint
    from unnest($42::uuid[], $43::bigint[], $44::bigint[], $45::bigint[]) as e (job, day, tokens, money_micros)
    join stored s on s.job = e.job
    group by e.day, s.queue
    -- Two batches lock the rows in one order.
    order by e.day, s.queue
    on conflict (day, name) do update set
        tokens = spent.tokens + excluded.tokens, money_micros = spent.money_micros + excluded.money_micros
)
