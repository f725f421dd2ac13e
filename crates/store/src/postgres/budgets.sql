-- The tables of a journal in PostgreSQL, version 6: what the jobs of a group may spend in a day, and what they spent.
alter table groups add column day_tokens bigint;
alter table groups add column day_money_micros bigint;

-- Counted with every append, and kept when jobs are removed. Days are those of UTC since 1970.
create table spent (
    day          bigint not null,
    name         text   not null,
    tokens       bigint not null,
    money_micros bigint not null,
    primary key (day, name)
) with (fillfactor = 30);
