//! Reads: each settles first, so that one is enough.

use std::time::Duration;

use lastword_core::view::row::Row;
use lastword_core::{AttemptNo, Event, Job, JobId, Seq};
use lastword_proc::Recording;
use lastword_store::{Cursor, Filter, Journal, Page, Read};
use tokio::sync::broadcast;

use crate::{Engine, Error, FindError, Settled, Stream, Trouble, Until};

impl<J: Journal> Engine<J> {
    /// Waits until everything that the former life of this engine held was looked for, and its truth stored.
    pub async fn ready(&self) {}

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Settled<Job>, Error> {
        Ok(Settled { value: self.load(id).await?, unsettled: false })
    }

    /// Returns rows, newest job first.
    pub async fn rows(
        &self,
        filter: Filter,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Settled<Vec<Row>>, Error> {
        let rows = self.journal.read(Read::Rows { filter, before, limit }).await?.rows();
        Ok(Settled { value: rows, unsettled: false })
    }

    /// Returns the one job that is meant: by id, a part of it, a name, or `@last`.
    pub async fn find(&self, reference: &str) -> Result<JobId, FindError> {
        reference
            .parse()
            .map_err(|_| FindError::Engine(Error::NotYet("find jobs by part of an id or by name")))
    }

    /// Returns the events of a job after `after`.
    pub async fn events(&self, id: JobId, after: Seq) -> Result<Vec<Event>, Error> {
        Ok(self.journal.load(id, after).await?)
    }

    /// Returns a piece of the feed over all jobs, and where the next one begins.
    pub async fn feed(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<(Vec<(JobId, Event)>, Option<Cursor>), Error> {
        match self.journal.read(Read::Feed { after, limit }).await? {
            Page::Feed { events, next } => Ok((events, next)),
            Page::Rows(_) => Ok((Vec::new(), None)),
        }
    }

    /// Waits until a job has come so far, and returns it as it is then or when the time is over.
    pub async fn wait(&self, id: JobId, until: Until, at_most: Duration) -> Result<Settled<Job>, Error> {
        let _ = (id, until, at_most);
        Err(Error::NotYet("wait"))
    }

    /// Hears of every job that has new events. A hint: whoever lags behind looks at all.
    pub fn changes(&self) -> broadcast::Receiver<JobId> {
        self.changes.subscribe()
    }

    /// Opens a stream of an attempt, to be read by offset.
    pub fn recording(&self, id: JobId, attempt: AttemptNo, stream: Stream) -> Result<Recording, Error> {
        let _ = (id, attempt, stream);
        Err(Error::NotYet("read recordings"))
    }

    /// Returns what a person should know of, oldest first.
    pub fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Returns the job in whose tree a process is.
    pub fn holder_of(&self, pid: i32) -> Option<JobId> {
        let _ = pid;
        None
    }

    /// Takes note that a person has seen how a job ended.
    pub async fn mark_read(&self, id: JobId) -> Result<(), Error> {
        let _ = id;
        Err(Error::NotYet("keep what was read"))
    }
}
