-- The tables of a journal in PostgreSQL, version 4: a key outlives its job.

-- When the job was removed.
alter table keys add column removed bigint;
