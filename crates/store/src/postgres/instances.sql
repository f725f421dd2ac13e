-- The tables of a journal in PostgreSQL, version 8: which server the rows were last seen on, and the pause after it changed.

-- The journal, through all its instances: a copy has the same, a database that was created again has another.
alter table meta add column journal uuid not null default gen_random_uuid();
-- The very row that was written when the tables were made. A copy of it is another row.
alter table meta add column origin text;
-- When the server was started, and the place in the feed that it had reached when that was first noticed.
alter table meta add column started text;
alter table meta add column start_place bigint;
-- The place at which the present pause began: until it is over nothing is given out. Null if there is none.
alter table meta add column settling bigint;
-- The longest lease that an owner may ask for.
alter table meta add column lease_max_ms bigint not null default 15000;
