//! Siblings of the journal: what a supervisor remembers beside the logs. No decision about a job rests on any of it.
//!
//! | what | for whom |
//! |---|---|
//! | `find` | people, for names instead of ids |
//! | `key` | clients that repeat a request because its reply got lost |
//! | groups | claims, which share slots out |
//! | `remove`, `mark_read`, `prunable` | retention |
//! | `counts` | status screens |
//! | `present` | readers that follow the feed from now on |

use std::collections::BTreeMap;
use std::future::Future;

use lastword_core::reference::Reference;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, JobId, Seq, Timestamp};

use crate::{Claim, Claimed, Cursor, Journal, Page, Read, Result};

/// Jobs that a reference is shown to mean when it means several: enough to choose from, too few to be a list.
pub const FOUND_MAX: u32 = 10;

/// How long a key is kept at least. A request repeated after a day is a new one.
pub const KEY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Events looked at in one go by a journal that has no shorter way to the end of its feed.
const PAGE: u32 = 1_000;

/// Keys swept when one is added: more than one, so that the table shrinks when fewer come in.
pub(crate) const SWEPT_MAX: u32 = 16;

/// A journal with its siblings.
pub trait Siblings: Journal {
    /// Stores an append, and takes jobs after it, each as if it had been asked for alone. A journal that can writes both at once.
    fn append_and_claim(
        &self,
        append: Append,
        claim: Claim,
    ) -> impl Future<Output = (Result<Seq>, Result<Vec<Claimed>>)> + Send {
        async {
            let stored = self.append(append).await;
            (stored, self.claim(claim).await)
        }
    }

    /// Returns the rows that a reference means: none, the one, or several of which a person must choose.
    fn find(&self, reference: Reference) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Keeps a key for a job, or tells for which job it was kept before.
    fn key(&self, key: Key) -> impl Future<Output = Result<Kept>> + Send;

    /// Returns every group, by name.
    fn groups(&self) -> impl Future<Output = Result<Vec<Group>>> + Send;

    /// Makes a group if there is none of that name, and returns the one that stands.
    fn add_group(&self, group: Group) -> impl Future<Output = Result<Group>> + Send;

    /// Makes a group or changes it.
    fn set_group(&self, group: Group) -> impl Future<Output = Result<()>> + Send;

    /// Removes a group; `false` if there was none. Its jobs stay.
    fn remove_group(&self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Removes an ended job with everything that is stored of it: its log, its row, its keys.
    fn remove(&self, job: JobId) -> impl Future<Output = Result<Removal>> + Send;

    /// Notes that the ending of a job was read. Does nothing for a live job.
    fn mark_read(&self, job: JobId) -> impl Future<Output = Result<()>> + Send;

    /// Returns ended jobs that may be removed, those that ended first coming first.
    fn prunable(&self, prune: Prune) -> impl Future<Output = Result<Prunable>> + Send;

    /// Counts jobs by phase. A phase that no job is in is absent.
    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send;

    /// Returns the place in the feed behind everything that was stored before this was asked; `None` if nothing was. Not exact to
    /// the other side: what is stored at the same time may still come after it.
    fn present(&self) -> impl Future<Output = Result<Option<Cursor>>> + Send {
        async {
            let mut place = None;
            loop {
                match self.read(Read::Feed { after: place.clone(), limit: PAGE }).await? {
                    Page::Feed { events, next } if !events.is_empty() => place = next,
                    _ => return Ok(place),
                }
            }
        }
    }
}

/// A key that a client made for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub key: String,
    /// What tells the request from another one under the same key.
    pub fingerprint: u128,
    /// The job the request is about.
    pub job: JobId,
    /// The caller's wall clock.
    pub now: Timestamp,
}

/// What stands for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The job that was given first.
    pub job: JobId,
    /// The fingerprint that was given first.
    pub fingerprint: u128,
    /// Whether it was there before.
    pub replayed: bool,
}

/// A group of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many of its jobs may be held at once; `None` is no bound.
    pub slots: Option<u32>,
    /// None of its jobs is taken. What runs goes on.
    pub paused: bool,
}

/// What became of a wish to remove a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is stored of it any more.
    Gone,
    /// It has not ended, and stays.
    NotEnded,
    /// There is no such job.
    NotThere,
}

/// Which ended jobs may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Those that ended before this moment.
    pub before: Timestamp,
    /// Also jobs with an unread ending.
    pub unread: bool,
    /// At most so many.
    pub limit: u32,
}

/// Ended jobs that may be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    /// Which.
    pub jobs: Vec<JobId>,
    /// How many more are old enough and are kept because their ending is unread.
    pub kept_unread: u64,
}

/// Jobs by phase.
pub type Counts = BTreeMap<PhaseName, u64>;
