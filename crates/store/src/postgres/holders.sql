with recursive holders (life) as (
    (
        select holder_incarnation from jobs where holder_incarnation is not null
        order by holder_incarnation limit 1
    )
    union all
    -- From one holder to the next without reading every job they hold.
    select (
        select j.holder_incarnation from jobs j where j.holder_incarnation > h.life
        order by j.holder_incarnation limit 1
    ) from holders h where h.life is not null
)
