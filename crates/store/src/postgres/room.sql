, noted as (
    delete from slot_changes where queue = $40::text and exists (select from here)
    returning change
), folded as (
    update queues set held = held + (select sum(change) from noted)
    where queue = $40 and exists (select from noted)
), room as materialized (
    -- No room if the group is not what it was when the claim began, or is not counted any more: the claim begins anew.
    select greatest($41::bigint - q.held - coalesce((select sum(change) from noted), 0), 0) as jobs
    from queues q
    where q.queue = $40 and (select g::text from groups g where g.name = $40) is not distinct from $42::text
)
