-- Which job waits for which, from its submission until it is told or ends. Jobs that waited before this table existed are
-- added when it is made.
create table dependencies (
    other blob not null check (length(other) = 16),
    job blob not null check (length(job) = 16),
    primary key (other, job)
) strict, without rowid;

-- A job that ends while it waits.
create index dependencies_job on dependencies (job);
