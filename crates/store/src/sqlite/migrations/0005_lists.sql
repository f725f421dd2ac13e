-- Lists as people read them: what needs a person first, then endings that were not read, then the rest, each by its last change.

-- When a person read its ending; zero before.
alter table jobs rename column read to seen_at;

-- The section of a list, and when the state last changed.
alter table jobs add column section integer not null default 2;
alter table jobs add column changed_at integer not null default 0;

update jobs set
    changed_at = updated_at,
    section = case
        when outcome is not null and seen_at > 0 then 3
        when outcome is not null then 1
        when instr(summary, '"waiting":true') > 0 then 0
        else 2
    end;

-- Where a job was submitted from, and by which job: known from its first event only.
update jobs set summary = json_patch(summary, json_object(
        'cwd', submitted.body ->> '$.spec.cwd', 'parent', submitted.body ->> '$.spec.parent'
    ))
    from events submitted
    where submitted.job = jobs.job and submitted.seq = 1 and json_valid(submitted.body) and json_valid(summary);

create index jobs_listed on jobs (section, changed_at, job);
