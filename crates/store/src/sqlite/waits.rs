//! Waits in SQL: read by what tells a job that its wait is over. `append` writes them.

use lastword_core::{Job, JobId, Seq};
use rusqlite::{Connection, params};

use super::append::{job_id, key};
use super::failure::{execute, failed};
use super::log;
use crate::waits::WaitOver;
use crate::{Error, Result};

/// Returns the jobs that wait for a job.
pub(super) fn dependents(connection: &Connection, other: JobId) -> Result<Vec<JobId>> {
    const SELECT: &str = "select job from dependencies where other = ?1 order by job";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let jobs = select.query_map([key(other)], |row| row.get(0));
    let jobs: Vec<[u8; 16]> = jobs.and_then(Iterator::collect).map_err(failed)?;
    jobs.into_iter().map(job_id).collect()
}

/// Reports whether any job waits for a job.
pub(super) fn is_awaited(connection: &Connection, other: JobId) -> Result<bool> {
    const SELECT: &str = "select 1 from dependencies where other = ?1";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.exists([key(other)]).map_err(failed)
}

/// Returns waits for jobs that have ended or are not there, in the order of both ids.
pub(super) fn waits_over(
    connection: &Connection,
    after: Option<(JobId, JobId)>,
    limit: u32,
) -> Result<Vec<WaitOver>> {
    const SELECT: &str = "select d.other, d.job, j.outcome from dependencies d left join jobs j on j.job = d.other \
         where (d.other, d.job) > (?1, ?2) and (j.job is null or j.outcome is not null) \
         order by d.other, d.job limit ?3";
    // Sorts before every id.
    let (other, job) = after.map_or(([0; 16], [0; 16]), |(other, job)| (key(other), key(job)));
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found =
        select.query_map(params![other, job, limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let found: Vec<([u8; 16], [u8; 16], Option<String>)> =
        found.and_then(Iterator::collect).map_err(failed)?;
    let read = |(other, job, outcome): ([u8; 16], [u8; 16], Option<String>)| {
        let (other, job) = (job_id(other)?, job_id(job)?);
        let unreadable = |error: serde_json::Error| {
            let what = format!("the outcome of {other} does not read: {error}");
            Error::Corrupt(what)
        };
        let outcome = outcome.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?;
        Ok(WaitOver { other, job, outcome })
    };
    found.into_iter().map(read).collect()
}

/// Adds the waits of jobs that were submitted before they had a table. A log that cannot be read is left out.
pub(super) fn fill(connection: &Connection) -> Result<()> {
    const WAITING: &str = "select job from jobs indexed by jobs_live \
         where outcome is null and phase = 'queued' and due is null";
    let mut select = connection.prepare(WAITING).map_err(failed)?;
    let waiting = select.query_map([], |row| row.get(0));
    let waiting: Vec<[u8; 16]> = waiting.and_then(Iterator::collect).map_err(failed)?;
    for waiting in waiting {
        let mut job = Job::unborn(job_id(waiting)?);
        let log = log::load(connection, job.id, Seq(0));
        let is_read = log.is_ok_and(|log| log.iter().all(|event| job.apply(event).is_ok()));
        for dependency in job.unmet.iter().filter(|_| is_read) {
            let insert = "insert or ignore into dependencies (other, job) values (?1, ?2)";
            execute(connection, insert, params![key(dependency.job), waiting])?;
        }
    }
    Ok(())
}
