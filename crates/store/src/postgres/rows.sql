-- The tables of a journal in PostgreSQL, version 12: rows of jobs that most appends change in place. PostgreSQL does so if no index is
-- concerned and the page has room; otherwise each append writes an entry into every index of the row.

-- Who holds what, in one index, also by group.
create index jobs_held on jobs (holder_incarnation, queue) where holder_incarnation is not null;
drop index jobs_held_by;
drop index jobs_held_in;

-- An ended job is in a section of ended ones, and changed its state last when it ended.
drop index jobs_ended;

-- The short form of an id never changes, and neither does the first event.
create index events_short on events (substring(uuid_send(job) from 12)) where seq = 1;
drop index jobs_short;

-- Room for as many versions as a job of one attempt has.
alter table jobs set (fillfactor = 50);
