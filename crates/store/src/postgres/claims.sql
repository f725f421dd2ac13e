-- The tables of a journal in PostgreSQL, version 7: claims of a fleet.

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
