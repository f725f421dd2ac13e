//! The store in one SQLite file, for a laptop: one writer with group commit, readers beside it.
//!
//! ```text
//! append ─┐                       ┌──────────────── one thread ───────────────┐
//! claim ──┼─► bounded queue ────► │ take all that waits → BEGIN IMMEDIATE     │
//! renew ──┘                       │ → check and write each → COMMIT, synced   │ ─► answers, then a hint
//!                                 └───────────────────────────────────────────┘
//! load, read ──► read-only connections, on their own snapshot
//! ```
//!
//! A call returns once its commit is on the disk. Several processes may open the same file; the write lock of SQLite puts their batches
//! in order.

mod append;
mod catalog;
mod claim;
mod conversations;
mod examine;
mod failure;
mod groups;
mod keys;
mod list;
mod lives;
mod log;
mod open;
mod reader;
mod rows;
#[cfg(test)]
mod tests;
mod waits;
mod witness;
mod writer;

pub use examine::{Examined, examine, unknown_jobs};

use std::path::Path;
use std::sync::Arc;

use lastword_core::life::Life;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};

use crate::hints::{Bell, Hints};
use crate::{
    Behind, Claim, Claimed, Cursor, Feed, Instance, Journal, Ready, Renew, Renewed, Result, WaitOver,
};

/// How the journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests per commit, at most. More of them share one sync of the disk, but the first waits for the last.
    pub batch_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        // At about ten microseconds each, the first of a full batch waits a few milliseconds.
        Options { batch_max: 256 }
    }
}

/// The store in one SQLite file. Cheap to clone; the last clone closes the file.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped first: the writer finishes its queue, and closes the file after the readers.
    readers: reader::Pool,
    writer: writer::Handle,
    instance: u64,
    bell: Arc<Bell>,
    void: witness::Void,
    behind: Option<Behind>,
}

impl Sqlite {
    /// Opens the journal in `folder`, and creates both if they are missing. The folder must be private to its user.
    pub fn open(folder: &Path) -> Result<Sqlite> {
        Sqlite::open_with(folder, &Options::default())
    }

    /// Opens the journal with options.
    pub fn open_with(folder: &Path, options: &Options) -> Result<Sqlite> {
        let opened = open::open(folder)?;
        let bell = Arc::new(Bell::default());
        let void = witness::Void::default();
        let readers = reader::Pool::new(opened.file.clone());
        let (instance, behind) = (opened.instance, opened.behind);
        let writer = writer::Handle::start(opened, void.clone(), options.batch_max, Arc::clone(&bell))?;
        Ok(Sqlite(Arc::new(Inner { readers, writer, instance, void, bell, behind })))
    }

    /// Returns how far the journal had come before, if that was further: it was deleted, or an older copy was put in its place.
    pub fn behind(&self) -> Option<Behind> {
        self.0.behind
    }

    /// Checks the whole file for damage: every page, every index, every constraint. Slow on a large file.
    pub async fn check(&self) -> Result<()> {
        self.0.readers.run(reader::check).await
    }
}

impl Journal for Sqlite {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        // A writer whose answer is uncertain reads the log to learn whether it was stored.
        self.0.void.check()?;
        self.0.readers.run(move |connection| log::load(connection, job, after)).await
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let prepared = Box::new(append::Prepared::new(append));
        let (seq, _) = self.0.writer.ask(|reply| writer::Request::Append(prepared, reply)).await?;
        Ok(seq)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        self.0.writer.ask(|reply| writer::Request::Claim(Box::new(claim), reply)).await
    }

    async fn append_and_claim(&self, append: Append, claim: Claim) -> (Result<Seq>, Result<Vec<Claimed>>) {
        let prepared = Box::new(append::Prepared::new(append));
        let (stored, taken) = self
            .0
            .writer
            .ask_both(
                |reply| writer::Request::Append(prepared, reply),
                |reply| writer::Request::Claim(Box::new(claim), reply),
            )
            .await;
        (stored.map(|(seq, _)| seq), taken)
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        self.0.writer.ask(|reply| writer::Request::Renew(renew, reply)).await
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        self.0.void.check()?;
        self.0.readers.run(lives::lives).await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.0.writer.change(move |connection| lives::end_life(connection, life, beat)).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        self.0.readers.run(move |connection| reader::held(connection, by, after, limit)).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.0.readers.run(move |connection| reader::feed(connection, after, limit)).await
    }

    async fn feed_end(&self) -> Result<Option<Cursor>> {
        self.0.readers.run(reader::feed_end).await
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.0.readers.run(move |connection| waits::dependents(connection, other)).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.0.readers.run(move |connection| waits::waits_over(connection, after, limit)).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.0.readers.run(move |connection| reader::ready(connection, now)).await
    }

    /// The file belongs to one process, so no other acts on what an earlier instance gave: there is no pause.
    async fn instance(&self) -> Result<Instance> {
        Ok(Instance { number: self.0.instance, settling: None, lease_max_ms: u64::MAX })
    }

    fn instance_seen(&self) -> Option<u64> {
        Some(self.0.instance)
    }

    async fn settle(&self, _: Instance) -> Result<bool> {
        Ok(false)
    }

    fn hints(&self) -> Hints {
        self.0.bell.hints()
    }
}
