-- The tables of a journal in PostgreSQL, version 7: lives of workers and daemons, each until it is over; a life without a row is over. No
-- end of a lease is stored: a beat counts its renewals.
create table lives (
    incarnation uuid   primary key,
    owner       text   not null,
    host        text   not null,
    boot        text   not null,
    beat        bigint not null,
    lease_ms    bigint not null
) with (fillfactor = 30);
create index lives_owner on lives (owner, incarnation);

-- Where they run was not stored. They cannot renew any more, and are over when their beat has stood still for long enough.
insert into lives (incarnation, owner, host, boot, beat, lease_ms) select incarnation, owner, '', '', 0, 90000 from owners;
drop table owners;
