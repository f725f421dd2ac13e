, awaited as (
    insert into dependencies (other, job)
    select w.other, w.job from unnest($40::uuid[], $41::uuid[]) as w (other, job)
    where (w.job in (select job from stored)) is true
    on conflict do nothing
), awaited_no_more as (
    delete from dependencies d using unnest($42::uuid[], $43::uuid[]) as w (other, job)
    where d.other = w.other and d.job = w.job and (w.job in (select job from stored)) is true
), ended_waiting as (
    delete from dependencies d
    where d.job = any ($44::uuid[]) and (d.job in (select job from stored)) is true
)
