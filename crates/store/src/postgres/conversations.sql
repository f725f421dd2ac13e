-- The tables of a journal in PostgreSQL, version 13: conversations.

-- The job that began a job's conversation; null for one without turns. It never changes.
alter table jobs add column conversation uuid;
update jobs set conversation = jobs.job
    from events submitted
    where submitted.job = jobs.job and submitted.seq = 1 and submitted.body::jsonb #> '{spec,work,agent}' is not null;

-- The jobs of a conversation, newest first.
create index jobs_conversation on jobs (conversation, job) where conversation is not null;

-- Conversations as people read them: the newest job of each. The others are in section 4.
create index jobs_conversations on jobs (section, changed_at, job) where conversation is not null;
