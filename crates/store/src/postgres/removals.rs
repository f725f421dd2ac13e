//! Removals in PostgreSQL.

use lastword_core::{JobId, OwnerId};

use super::Postgres;
use super::batch::job_id;
use super::connect::{change, query};
use super::identity::with_here;
use crate::{Removals, Result};

const NOTE: &str = with_here!(
    "$3",
    "$4",
    ", noted as (
        insert into removals (worker, job)
        select name, $1::uuid from workers where name = any($2::text[]) and revoked_at is null and exists (select from here)
        on conflict do nothing
    )
    select exists (select from here)"
);

const READ: &str =
    "select worker, job from removals where worker = any($1::text[]) order by worker, job limit $2::bigint";

const FORGET: &str = with_here!(
    "$3",
    "$4",
    ", forgotten as (
        delete from removals where worker = $1::text and job = $2::uuid and exists (select from here)
    )
    select exists (select from here)"
);

fn names(workers: &[OwnerId]) -> Vec<&str> {
    workers.iter().map(|worker| &*worker.0).collect()
}

impl Removals for Postgres {
    async fn note_removal(&self, job: JobId, workers: Vec<OwnerId>) -> Result<()> {
        let (job, workers) = (job.as_uuid(), names(&workers));
        let noted = || async { change(&self.0.readers, &self.0.witness, NOTE, &[&job, &workers]).await };
        self.patiently(noted).await.map(drop)
    }

    async fn removals(&self, workers: Vec<OwnerId>, limit: u32) -> Result<Vec<(OwnerId, JobId)>> {
        let (workers, limit) = (names(&workers), i64::from(limit));
        let found = self.patiently(|| async { query(&self.0.readers, READ, &[&workers, &limit]).await });
        let read =
            |row: &tokio_postgres::Row| Ok((OwnerId(row.get::<_, &str>(0).into()), job_id(row.get(1))?));
        found.await?.iter().map(read).collect()
    }

    async fn removed(&self, worker: OwnerId, job: JobId) -> Result<()> {
        let (worker, job) = (&*worker.0, job.as_uuid());
        let forgotten = || async { change(&self.0.readers, &self.0.witness, FORGET, &[&worker, &job]).await };
        self.patiently(forgotten).await.map(drop)
    }
}
