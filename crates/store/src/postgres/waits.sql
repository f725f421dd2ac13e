, awaited as (
    insert into dependencies (other, job)
    select w.other, w.job from unnest($39::uuid[], $40::uuid[]) as w (other, job)
    where (w.job in (select job from stored)) is true
    on conflict do nothing
), awaited_no_more as (
    delete from dependencies d using unnest($41::uuid[], $42::uuid[]) as w (other, job)
    where d.other = w.other and d.job = w.job and (w.job in (select job from stored)) is true
), ended_waiting as (
    delete from dependencies d
    where d.job = any ($43::uuid[]) and (d.job in (select job from stored)) is true
)
