-- The tables of a journal in PostgreSQL, version 5: lists as people read them.

-- When a person read its ending; zero before.
alter table jobs add column seen_at bigint not null default 0;
-- The section of a list, and when the state last changed.
alter table jobs add column section smallint not null default 2;
alter table jobs add column changed_at bigint not null default 0;

update jobs set
    seen_at = read::int,
    changed_at = updated_at,
    section = case
        when outcome is not null and read then 3
        when outcome is not null then 1
        when position('"waiting":true' in summary) > 0 then 0
        else 2
    end;
alter table jobs drop column read;

-- Where a job was submitted from, and by which job: known from its first event only.
update jobs set summary = (
        summary::jsonb || jsonb_strip_nulls(jsonb_build_object(
            'cwd', submitted.body::jsonb #> '{spec,cwd}', 'parent', submitted.body::jsonb #> '{spec,parent}'
        ))
    )::text
    from events submitted
    where submitted.job = jobs.job and submitted.seq = 1;

create index jobs_listed on jobs (section, changed_at, job);
