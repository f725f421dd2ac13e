-- The tables of a journal in PostgreSQL, version 11: what servers of a fleet tell each other.

-- Files of removed jobs that workers still have.
create table removals (
    worker text not null,
    job    uuid not null,
    primary key (worker, job)
);

-- How servers reach each other. What can read this database may do everything already, so tokens need no hash.
create table servers (
    name        text primary key,
    address     text not null,
    fingerprint text not null,
    token       text not null
);

-- To which server it last connected.
alter table workers add column server text;
