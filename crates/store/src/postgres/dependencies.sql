-- The tables of a journal in PostgreSQL, version 3: which job waits for which, from its submission until it is told or ends. Jobs that
-- waited before this table existed are added when it is made.
create table dependencies (
    other uuid not null,
    job   uuid not null,
    primary key (other, job)
);
-- A job that ends while it waits.
create index dependencies_job on dependencies (job);
