//! Removals: files of removed jobs that are still on the hosts of workers.
//!
//! A job is removed through a server, and its recordings are where it ran. Which worker has to remove what is stored before the job goes, so a
//! worker that is away at that time is told when it is back. Not part of [`Store`](crate::Store), because a laptop has no workers.

use std::future::Future;

use lastword_core::{JobId, OwnerId};

use crate::Result;

/// Stores what workers still have to remove.
pub trait Removals: Clone + Send + Sync + 'static {
    /// Notes that each of these workers has files of a job that is being removed. Names without an enrolment are left out: their hosts do
    /// not come back.
    fn note_removal(&self, job: JobId, workers: Vec<OwnerId>) -> impl Future<Output = Result<()>> + Send;

    /// Returns at most `limit` jobs whose files one of these workers has to remove.
    fn removals(
        &self,
        workers: Vec<OwnerId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<(OwnerId, JobId)>>> + Send;

    /// Forgets a note: the worker has removed the files.
    fn removed(&self, worker: OwnerId, job: JobId) -> impl Future<Output = Result<()>> + Send;
}
