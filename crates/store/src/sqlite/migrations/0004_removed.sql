-- A key outlives its job: when the job was removed.
alter table keys add column removed integer;
