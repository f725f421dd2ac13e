-- The tables of a journal in PostgreSQL, version 10: workers and how they become one. Tokens are stored as their SHA-256 only.

-- A name belongs to one enrolment: enrolling it again replaces the token.
create table workers (
    name        text   primary key,
    token       bytea  not null unique,
    -- Sorted, with a space between them.
    labels      text   not null,
    enrolled_at bigint not null,
    revoked_at  bigint,
    -- What it said of itself when it last connected.
    version     text,
    slots       bigint,
    host        text
);

-- One-time tokens, the last one of each name.
create table invitations (
    name       text   primary key,
    token      bytea  not null unique,
    labels     text   not null,
    expires_at bigint not null,
    used_at    bigint
);
