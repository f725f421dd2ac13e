-- A job whose agent is idle is held, and is due when a message came for it. The constraint is changed where it stands, as SQLite's manual has it:
-- rows stay as they are, and a journal of a million jobs is opened as fast as an empty one.
pragma writable_schema = on;
update sqlite_schema
set sql = replace(sql, 'check (due is null or holder_owner is null)', 'check (due is null or holder_owner is null or phase = ''idle'')')
where type = 'table' and name = 'jobs';
pragma writable_schema = reset;

-- Those have no slot.
create index jobs_idle on jobs (queue) where phase = 'idle';
