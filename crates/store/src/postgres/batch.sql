, input as materialized (
    select * from unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::text[], $6::uuid[], $7::bigint[], $8::boolean[],
        $9::text[], $10::text[], $11::smallint[], $12::bigint[], $13::text[], $14::uuid[], $15::bigint[],
        $16::text[], $17::int[], $18::int[], $19::text[], $20::text[], $21::bigint[], $22::bigint[],
        $23::boolean[], $24::text[], $32::text[], $33::smallint[], $34::bigint[], $37::text[], $38::uuid[],
        $39::uuid[]
    ) with ordinality as i (
        job, expected, version, append, fence_owner, fence_incarnation, fence_epoch, may_follow,
        phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch,
        outcome, least_reader, fold, provider, reference, submitted_at, updated_at, news, summary, name,
        section, changed_at, labels, read_in, conversation, place
    )
    where place <= (select jobs from room)
), born as (
    insert into jobs (
        job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch, outcome,
        least_reader, fold, provider, reference, submitted_at, updated_at, news, summary, name, section, changed_at,
        labels, conversation
    )
    select
        job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch, outcome,
        least_reader, fold, provider, reference, submitted_at, updated_at, news, summary, name, section, changed_at,
        labels, conversation
    from input cross join here where expected = 0 and fence_owner is null
    on conflict (job) do nothing
    returning job, queue, priority, due, labels, holder_owner, provider, reference,
        (holder_owner is not null)::int as change, false as waited, false as drove
), moved as (
    update jobs j set
        version = i.version, phase = i.phase, due = i.due, holder_owner = i.holder_owner,
        holder_incarnation = i.holder_incarnation, holder_epoch = i.holder_epoch, outcome = i.outcome,
        least_reader = i.least_reader, fold = i.fold, provider = i.provider, reference = i.reference,
        updated_at = i.updated_at, news = i.news, summary = i.summary,
        -- What is written of an ended job changes no state, and it may have been read, unless another job follows.
        section = case when j.outcome is null or 4 in (i.section, j.section) then i.section else j.section end,
        changed_at = case when j.outcome is null or 4 in (i.section, j.section) then i.changed_at else j.changed_at end
    -- The row as it was before: whether the job had a slot, waited, or drove a conversation.
    from input i, here h, jobs o
    where j.job = i.job and i.expected > 0 and j.version = i.expected and o.job = i.job and o.version = i.expected
        and (j.outcome is null or i.may_follow)
        -- What it was decided on was not lost.
        and (i.read_in is null or i.read_in = h.instance_first)
        -- In a pause, a tree of a job that seems to wait may be alive: only its owner ends it.
        and (h.settling is null or i.fence_owner is not null or i.outcome is null or j.outcome is not null)
        and (i.fence_owner is null or (
            j.holder_owner = i.fence_owner and j.holder_incarnation = i.fence_incarnation
            and j.holder_epoch = i.fence_epoch
            and i.fence_incarnation between h.instance_first and h.instance_last
        ))
    returning j.job, j.queue, j.priority, j.due, j.labels, j.holder_owner, j.provider, j.reference,
        (j.holder_owner is not null and j.phase <> 'idle')::int
            - (o.holder_owner is not null and o.phase <> 'idle')::int,
        o.due is not null, o.provider is not null
), stored as materialized (
    select * from born union all select * from moved
), told as (
    insert into events (job, seq, at, append, kind, version, body, place)
    select e.job, e.seq, e.at, e.append, e.kind, e.version, e.body, (select place from here)
    from unnest($25::uuid[], $26::bigint[], $27::bigint[], $28::uuid[], $29::text[], $30::int[], $31::text[])
        as e (job, seq, at, append, kind, version, body)
    -- Not a join, so that it is one look into a hash whatever the planner expects.
    where (e.job in (select job from stored)) is true
), waits as (
    insert into ready (job, queue, priority, due, labels)
    select job, queue, priority, due, labels from stored where due is not null
    on conflict (job) do update set due = excluded.due where ready.due <> excluded.due
), waits_no_more as (
    delete from ready r using stored s where r.job = s.job and s.due is null and s.waited
), slots_changed as (
    insert into slot_changes (queue, change)
    select s.queue, s.change
    from (select queue, sum(change) as change from stored where change <> 0 group by queue) s
    where s.change <> 0 and exists (select from queues q where q.queue = s.queue)
), left_alone as (
    delete from conversations c using stored s
    where c.job = s.job and s.drove
        and (s.holder_owner is null or s.provider is null or (c.provider, c.reference) <> (s.provider, s.reference))
), driven as (
    insert into conversations (provider, reference, job)
    select provider, reference, job from stored
    where provider is not null and holder_owner is not null
    order by provider, reference
    on conflict (provider, reference) do nothing
)
