//! The catalog: jobs as people see them. Lists, references, and removing what has ended.

use std::collections::BTreeMap;
use std::future::Future;

use lastword_core::reference::Reference;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{JobId, Timestamp};

use crate::{Filter, List, Listed, Result};

/// Jobs shown for an ambiguous reference: enough to choose from, too few to be a list.
pub const FOUND_MAX: u32 = 10;

/// Reads rows, and removes ended jobs.
pub trait Catalog: Clone + Send + Sync + 'static {
    /// Returns the row of a job.
    fn row(&self, job: JobId) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Returns at most `limit` rows that pass the filter, newest job first, of jobs older than `before`.
    fn rows(
        &self,
        filter: Filter,
        before: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Returns a page of a list as people read it.
    fn list(&self, list: List) -> impl Future<Output = Result<Vec<Listed>>> + Send;

    /// Returns the rows of these jobs with their sections, in any order. A job that is not there is left out.
    fn listed(&self, jobs: Vec<JobId>) -> impl Future<Output = Result<Vec<Listed>>> + Send;

    /// Returns the rows that a reference matches: none, one, or several for a person to choose from.
    fn find(&self, reference: Reference) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Counts jobs by phase. A phase without jobs is absent.
    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send;

    /// Counts live jobs by group and phase. A group without live jobs is absent.
    fn counts_by_group(&self) -> impl Future<Output = Result<GroupCounts>> + Send;

    /// Notes that a person has read the ending of a job. Does nothing for a live job.
    fn mark_seen(&self, job: JobId, now: Timestamp) -> impl Future<Output = Result<()>> + Send;

    /// Returns ended jobs that may be removed, in the order in which they ended.
    fn prunable(&self, prune: Prune) -> impl Future<Output = Result<Prunable>> + Send;

    /// Removes an ended job with its log and its row. Its keys become tombstones. A job that another one waits for stays: its outcome would be
    /// lost to that one.
    fn remove(&self, job: JobId, now: Timestamp) -> impl Future<Output = Result<Removal>> + Send;
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The job was removed.
    Gone,
    /// The job has not ended and stays.
    NotEnded,
    /// Another job waits for it, so it stays.
    Awaited,
    /// There is no such job.
    NotThere,
}

/// Which ended jobs may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Those that ended before this moment.
    pub before: Timestamp,
    /// Also those with an unread ending.
    pub unread: bool,
    /// At most so many.
    pub limit: u32,
}

/// Ended jobs that may be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// How many more are old enough and are kept because their ending is unread.
    pub kept_unread: u64,
}

/// Jobs by phase.
pub type Counts = BTreeMap<PhaseName, u64>;

/// Live jobs by group and phase.
pub type GroupCounts = BTreeMap<String, Counts>;
