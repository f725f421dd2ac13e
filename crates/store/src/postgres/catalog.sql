-- The tables of a journal in PostgreSQL, version 2: what is remembered beside the logs.

-- The name of a job, which never changes, and whether its ending was read.
alter table jobs add column name text;
alter table jobs add column read boolean not null default false;
create index jobs_named on jobs (name, job) where name is not null;
create index jobs_named_live on jobs (name, job) where name is not null and outcome is null;
-- Lists of jobs that are not over, among many that are.
create index jobs_live on jobs (job) where outcome is null;
-- A job by the short form of its id, which spells the last five bytes.
create index jobs_short on jobs (substring(uuid_send(job) from 12));
-- What may be removed: jobs that ended long ago.
create index jobs_ended on jobs (updated_at, job) where outcome is not null;

-- Keys of requests that may be repeated.
create table keys (
    key         text primary key,
    fingerprint uuid   not null,
    job         uuid   not null,
    at          bigint not null
);
create index keys_at on keys (at);
create index keys_job on keys (job);

-- How many jobs of a queue may be held at once, and whether any are taken.
create table groups (
    name   text primary key,
    slots  bigint,
    paused boolean not null
);
