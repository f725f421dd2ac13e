-- What is remembered beside the logs: names, what was read, keys of requests, groups.

-- What people call a job. It never changes.
alter table jobs add column name text;

-- Whether its ending was read.
alter table jobs add column read integer not null default 0;

-- A job by its name: a live one first, then the newest.
create index jobs_named on jobs (name, job) where name is not null;
create index jobs_named_live on jobs (name, job) where name is not null and outcome is null;

-- A job by the short form of its id, which spells the last five bytes. Also the smallest thing to count all jobs by.
create index jobs_short on jobs (substr(job, 12));

-- What may be removed: jobs that ended long ago.
-- It holds all that is asked for, the condition too, so that no row is looked at.
create index jobs_ended on jobs (updated_at, job, read, outcome) where outcome is not null;

-- Keys of requests that may be repeated.
create table keys (
    key text not null primary key,
    fingerprint blob not null check (length(fingerprint) = 16),
    job blob not null check (length(job) = 16),
    at integer not null
) strict, without rowid;

-- Keys that are old enough to go, and those of a job that goes.
create index keys_at on keys (at);
create index keys_job on keys (job);

-- How many jobs of a queue may be held at once, and whether any are taken.
create table groups (
    name text not null primary key,
    slots integer,
    paused integer not null
) strict, without rowid;
