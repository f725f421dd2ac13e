-- The tables of a journal in PostgreSQL, version 1.
--
-- No triggers, foreign keys, sequences or procedures: every rule is in the statements. Ids come from clients.
-- Moments that clients decided are milliseconds since 1970; only leases run on the clock of the database.

-- One row: the database itself.
create table meta (
    one            boolean primary key default true check (one),
    -- The incarnations this instance can give: its number in the upper half, anything in the lower.
    instance_first uuid not null,
    instance_last  uuid not null,
    -- The newest incarnation given.
    incarnations   bigint not null default 0,
    -- What makes places in the feed go on counting up when the rows were moved to another cluster.
    feed_offset    bigint not null default 0,
    -- Where the rows were last seen; null where the server does not tell.
    cluster        text,
    timeline       text
);

-- Facts, never changed. Partitioned by the time in the job's id, so that old months can be dropped as a whole.
create table events (
    job     uuid   not null,
    seq     bigint not null,
    at      bigint not null,
    append  uuid   not null,
    kind    text   not null,
    version int    not null,
    body    text   not null,
    -- The transaction that wrote it, as a place in the feed.
    place   bigint not null,
    primary key (job, seq)
) partition by range (job);
create unique index events_one_last_word on events (job) where kind = 'last_word';
create index events_feed on events (place, job, seq);
-- What no month has room for.
create table events_other partition of events default;

-- One row per job; every append changes it, and is checked against it.
create table jobs (
    job                uuid primary key,
    version            bigint   not null,
    phase              text     not null,
    queue              text     not null,
    priority           smallint not null,
    due                bigint,
    holder_owner       text,
    holder_incarnation uuid,
    holder_epoch       bigint,
    outcome            text,
    least_reader       int      not null,
    fold               int      not null,
    provider           text,
    reference          text,
    submitted_at       bigint   not null,
    updated_at         bigint   not null,
    news               boolean  not null,
    summary            text     not null
) with (fillfactor = 70);
create index jobs_held_by on jobs (holder_incarnation) where holder_incarnation is not null;
create index jobs_held_in on jobs (queue) where holder_incarnation is not null;
create index jobs_news on jobs (holder_incarnation, job) where news;

-- Jobs that may be claimed. Stays tiny: a claim deletes its row.
create table ready (
    job      uuid primary key,
    queue    text     not null,
    priority smallint not null,
    due      bigint   not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
create index ready_order on ready (queue, priority desc, due, job);

-- Queues whose slots were ever counted: the row is the lock.
create table queues (queue text primary key);

-- Workers and daemons.
create table owners (
    owner       text primary key,
    incarnation uuid not null unique,
    until       timestamptz not null
) with (fillfactor = 30);

-- Conversations that a held job drives.
create table conversations (
    provider  text not null,
    reference text not null,
    job       uuid not null,
    primary key (provider, reference)
);
create index conversations_job on conversations (job);
