-- The tables of a journal in PostgreSQL, version 11: files of removed jobs that workers still have.

create table removals (
    worker text not null,
    job    uuid not null,
    primary key (worker, job)
);
