-- What the jobs of a group may spend in a day.
alter table groups add column day_tokens integer;
alter table groups add column day_money_micros integer;

-- What they spent: counted with every append, and kept when jobs are removed. Days are those of UTC since 1970.
create table spent (
    day integer not null,
    name text not null,
    tokens integer not null,
    money_micros integer not null,
    primary key (day, name)
) strict, without rowid;
