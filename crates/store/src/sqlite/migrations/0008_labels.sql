-- Jobs that may be claimed, again: one line for each priority and set of labels that a worker must have. A worker steps over
-- the lines of other workers without reading their jobs.
create table ready_by_labels (
    queue text not null,
    -- Sorted, with a space between them.
    labels text not null,
    rank integer not null,
    due integer not null,
    job blob not null,
    primary key (queue, labels, rank, due, job)
) strict, without rowid;
insert into ready_by_labels (queue, labels, rank, due, job) select queue, '', rank, due, job from ready;
drop table ready;
alter table ready_by_labels rename to ready;
