-- Lives of workers and daemons, each until it is over; a life without a row is over. No end of a lease is stored: a beat counts its
-- renewals. One process has this file locked, so those before it are replaced by its registration, and the table begins empty.
create table lives (
    incarnation blob not null primary key check (length(incarnation) = 16),
    owner text not null,
    host text not null,
    boot text not null,
    beat integer not null,
    lease_ms integer not null
) strict, without rowid;

drop table owners;
