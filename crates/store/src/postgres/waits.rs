//! Waits in PostgreSQL: read by what tells a job that its wait is over. The statement of `batch` writes them.

use deadpool_postgres::Pool;
use lastword_core::{Job, JobId};
use tokio_postgres::Transaction;
use uuid::Uuid;

use super::batch::{event, job_id};
use super::connect::query;
use super::failure::Try;
use crate::waits::WaitOver;
use crate::{Error, Result};

const DEPENDENTS: &str = "select job from dependencies where other = $1 order by job";

const OVER: &str = "
    select d.other, d.job, j.outcome from dependencies d left join jobs j on j.job = d.other
    where (d.other, d.job) > ($1, $2) and (j.job is null or j.outcome is not null)
    order by d.other, d.job limit $3";

/// Returns the jobs that wait for a job.
pub(super) async fn dependents(pool: &Pool, other: JobId) -> Try<Vec<JobId>> {
    let rows = query(pool, DEPENDENTS, &[&other.as_uuid()]).await?;
    Ok(rows.iter().map(|row| job_id(row.get(0))).collect::<Result<_>>()?)
}

/// Returns waits for jobs that have ended or are not there, in the order of both ids.
pub(super) async fn waits_over(pool: &Pool, after: Option<(JobId, JobId)>, limit: u32) -> Try<Vec<WaitOver>> {
    let (other, job) =
        after.map_or((Uuid::nil(), Uuid::nil()), |(other, job)| (other.as_uuid(), job.as_uuid()));
    let rows = query(pool, OVER, &[&other, &job, &i64::from(limit)]).await?;
    Ok(rows.iter().map(read).collect::<Result<_>>()?)
}

fn read(row: &tokio_postgres::Row) -> Result<WaitOver> {
    let (other, job) = (job_id(row.get(0))?, job_id(row.get(1))?);
    let outcome: Option<&str> = row.get(2);
    let unreadable =
        |error: serde_json::Error| Error::Corrupt(format!("the outcome of {other} does not read: {error}"));
    let outcome = outcome.map(serde_json::from_str).transpose().map_err(unreadable)?;
    Ok(WaitOver { other, job, outcome })
}

/// Adds the waits of jobs that were submitted before they had a table. A log that cannot be read is left out.
pub(super) async fn fill(step: &Transaction<'_>) -> Try<()> {
    const WAITING: &str = "select job from jobs where outcome is null and phase = 'queued' and due is null";
    const LOG: &str = "select seq, at, kind, version, body from events where job = $1 order by seq";
    const INSERT: &str = "insert into dependencies (other, job) values ($1, $2) on conflict do nothing";
    for waiting in step.query(WAITING, &[]).await? {
        let key: Uuid = waiting.get(0);
        let mut job = Job::unborn(job_id(key)?);
        let log = step.query(LOG, &[&key]).await?;
        let is_read = log.iter().all(|row| event(row, 0).is_ok_and(|event| job.apply(&event).is_ok()));
        for dependency in job.unmet.iter().filter(|_| is_read) {
            step.execute(INSERT, &[&dependency.job.as_uuid(), &key]).await?;
        }
    }
    Ok(())
}
