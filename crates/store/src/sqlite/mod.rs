//! The journal in one SQLite file, for a laptop: one writer with group commit, readers beside it.
//!
//! ```text
//! append ─┐                       ┌──────────────── one thread ───────────────┐
//! claim ──┼─► bounded queue ────► │ take all that waits → BEGIN IMMEDIATE     │
//! renew ──┘                       │ → check and write each → COMMIT, synced   │ ─► answers, then a hint
//!                                 └───────────────────────────────────────────┘
//! load, read ──► read-only connections, on their own snapshot
//! ```
//!
//! No caller is answered before the commit is on the disk. Several processes may open the same file; the write lock of
//! SQLite puts their batches in order.

mod append;
mod claim;
mod examine;
mod open;
mod reader;
mod renew;
mod siblings;
#[cfg(test)]
mod tests;
mod writer;

pub use examine::{Examined, examine};

use std::path::Path;
use std::sync::Arc;

use lastword_core::{Append, Event, JobId, Seq};
use rusqlite::ErrorCode;

use crate::hints::{Bell, Hints};
use crate::{Claim, Claimed, Error, Journal, Page, Read, Renew, Renewed, Result};

/// How the journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests that one commit may carry. More of them share one sync of the disk, but the first waits for the last.
    pub batch_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        // At about ten microseconds each, the first of a full batch waits a few milliseconds.
        Options { batch_max: 256 }
    }
}

/// The journal in one SQLite file. Cheap to clone; the file is closed with the last clone.
#[derive(Clone, Debug)]
pub struct Sqlite(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped first: the writer ends with what it was given, and closes the file after the readers.
    readers: reader::Pool,
    writer: writer::Handle,
    bell: Arc<Bell>,
}

impl Sqlite {
    /// Opens the journal in `folder`, and makes both if they are not there. The folder must belong to its user alone.
    pub fn open(folder: &Path) -> Result<Sqlite> {
        Sqlite::open_with(folder, &Options::default())
    }

    /// Opens the journal with options.
    pub fn open_with(folder: &Path, options: &Options) -> Result<Sqlite> {
        let opened = open::open(folder)?;
        let bell = Arc::new(Bell::new());
        let readers = reader::Pool::new(opened.file);
        let writer = writer::Handle::start(opened.connection, opened.instance, options, Arc::clone(&bell))?;
        Ok(Sqlite(Arc::new(Inner { readers, writer, bell })))
    }

    /// Returns a waiter that is woken after commits of this process.
    pub fn hints(&self) -> Hints {
        self.0.bell.hints()
    }

    /// Looks through the whole file for damage: every page, every index, every constraint. Slow on a large one.
    pub async fn check(&self) -> Result<()> {
        self.0.readers.run(reader::check).await
    }
}

impl Journal for Sqlite {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        self.0.readers.run(move |connection| reader::load(connection, job, after)).await
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let prepared = Box::new(append::Prepared::new(append));
        let (seq, _) = self.0.writer.ask(|reply| writer::Request::Append(prepared, reply)).await?;
        Ok(seq)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        self.0.writer.ask(|reply| writer::Request::Claim(Box::new(claim), reply)).await
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        self.0.writer.ask(|reply| writer::Request::Renew(renew, reply)).await
    }

    async fn read(&self, read: Read) -> Result<Page> {
        self.0.readers.run(move |connection| reader::read(connection, &read)).await
    }
}

/// Says what a caller can do about an error of SQLite.
fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // A constraint stands behind every rule that `admit` checks, so one that fires shows a broken rule.
        // `Unknown` is what SQLite says about a table or column that is not there.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::Unknown,
        ) => Error::Corrupt(error.to_string()),
        Some(_) => Error::Unavailable(error.to_string()),
        // Not from SQLite: a stored value has a type or a form that nothing here writes.
        None => Error::Corrupt(error.to_string()),
    }
}
