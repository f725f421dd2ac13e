-- The journal. Strict tables: a value of the wrong type is an error, not a surprise.
-- Every index costs each append a little; the comment beside one names the question that needs it.

-- The database itself. One row.
create table meta (
    one integer primary key check (one = 1),
    -- Names this database; with it every incarnation it gave.
    instance integer not null,
    -- The file this instance was made for. In a copy they differ, and a new instance is made.
    device integer not null,
    inode integer not null,
    -- The newest incarnation given.
    incarnations integer not null
) strict;

-- Facts, never changed. `place` is the order of commits, since one transaction writes at a time: the feed
-- walks it. Places are not given twice as long as the newest event is never deleted.
create table events (
    place integer primary key,
    job blob not null check (length(job) = 16),
    seq integer not null check (seq > 0),
    at integer not null,
    append blob not null check (length(append) = 16),
    kind text not null,
    version integer not null,
    body text not null
) strict;

-- `load`, and no number twice.
create unique index events_by_job on events (job, seq);

-- No second last word, whatever the code above does.
create unique index events_last_word on events (job) where kind = 'last_word';

-- One row per job: what fence, queue and lists look at.
create table jobs (
    job blob not null primary key check (length(job) = 16),
    version integer not null check (version > 0),
    phase text not null,
    queue text not null,
    priority integer not null,
    due integer,
    holder_owner text,
    holder_incarnation blob check (length(holder_incarnation) = 16),
    holder_epoch integer,
    outcome text,
    least_reader integer not null,
    fold integer not null,
    provider text,
    reference text,
    submitted_at integer not null,
    updated_at integer not null,
    news integer not null,
    summary text not null,
    check ((outcome is not null) = (phase = 'ended')),
    check (due is null or holder_owner is null)
) strict, without rowid;

-- Lists of jobs that are not over, among many that are.
create index jobs_live on jobs (job) where outcome is null;

-- Slots of a queue; jobs whose holder is gone.
create index jobs_held on jobs (queue, holder_incarnation) where holder_incarnation is not null;

-- `renew` asks which held jobs have news.
create index jobs_news on jobs (holder_incarnation) where news = 1;

-- Jobs that may be claimed, in the order of claims. `rank` is the priority, negated.
create table ready (
    queue text not null,
    rank integer not null,
    due integer not null,
    job blob not null,
    primary key (queue, rank, due, job)
) strict, without rowid;

-- Workers and daemons with their leases.
create table owners (
    owner text not null primary key,
    incarnation blob not null check (length(incarnation) = 16),
    until integer not null
) strict, without rowid;

-- Conversations that a held job drives.
create table conversations (
    provider text not null,
    reference text not null,
    job blob not null,
    primary key (provider, reference)
) strict, without rowid;
