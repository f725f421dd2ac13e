-- The job that began a job's conversation; null for one without turns. It never changes. Jobs of before are added from their logs.
alter table jobs add column conversation blob check (length(conversation) = 16);

-- The jobs of a conversation, newest first.
create index jobs_conversation on jobs (conversation, job) where conversation is not null;

-- Conversations as people read them: the newest job of each. The others are in section 4.
create index jobs_conversations on jobs (section, changed_at, job) where conversation is not null;

-- What may be removed; a conversation when its newest job may.
drop index jobs_ended;
create index jobs_ended on jobs (updated_at, job, seen_at, outcome, section) where outcome is not null;
