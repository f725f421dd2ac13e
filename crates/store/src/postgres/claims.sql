-- The tables of a journal in PostgreSQL, version 9: claims of a fleet.

-- The labels that the worker of a job must have, sorted, with a space between them.
alter table jobs add column labels text not null default '';
alter table ready add column labels text not null default '';
-- One line for each set of labels and priority. A worker steps over the lines of other workers without reading their jobs.
drop index ready_order;
create index ready_order on ready (queue, labels, priority desc, due, job);

-- Groups whose held jobs are counted, which are those with a bound. Appends of another group need not look further. A claim that counts
-- locks the row, and folds into it what was noted since the last one.
delete from queues;
alter table queues add column held bigint not null;

-- By how much an append changed the held jobs of a group that is counted. Appends add rows and never wait for each other, or for a claim.
create table slot_changes (
    queue  text   not null,
    change bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
create index slot_changes_queue on slot_changes (queue);
