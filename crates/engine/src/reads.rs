//! Reads: each settles first, so that one is enough.

use std::io;
use std::time::Duration;

use lastword_core::decide::Refusal;
use lastword_core::job::Phase;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{AttemptNo, Event, Job, JobId, Seq};
use lastword_proc::Recording;
use lastword_store::siblings::Siblings;
use lastword_store::{Cursor, Filter, Page, Read};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};

use crate::{Engine, Error, NoAttempt, Settled, Stream, Trouble, Until};

/// How often a read is done again because the task of a job began or ended in its midst.
const FOLLOW_TRIES: u32 = 3;

impl<J: Siblings> Engine<J> {
    /// Returns where the worktree of a job is, or would be.
    pub fn worktree(&self, id: JobId) -> Option<std::path::PathBuf> {
        self.shared.trees.worktree(id)
    }

    /// Waits until everything that the former life of this engine held was looked for, and its truth stored.
    pub async fn ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        // The sender lives as long as this handle.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Reports whether that is so by now.
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Settled<Job>, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let tasks = self.shared.tasks.made();
            let late = self.shared.settle(Some(id)).await;
            let job = self.shared.load(id).await?;
            if matches!(job.phase, Phase::Unborn) {
                return Err(Refusal::NotFound(id).into());
            }
            let fence = job.holder.as_ref().map(|holder| &holder.fence);
            let followed = job.open_attempt().is_none() || self.shared.follows(id, fence, tasks);
            if followed || tries == FOLLOW_TRIES {
                return Ok(Settled { unsettled: late || !followed, value: job });
            }
        }
    }

    /// Returns rows, newest job first.
    pub async fn rows(
        &self,
        filter: Filter,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Settled<Vec<Row>>, Error> {
        let read = Read::Rows { filter, before, limit };
        let mut tries = 0;
        loop {
            tries += 1;
            let tasks = self.shared.tasks.made();
            let late = self.shared.settle(None).await;
            let rows = self.shared.journal.read(read.clone()).await?.rows();
            let has_tree = |row: &&Row| matches!(row.phase, PhaseName::Running | PhaseName::Stopping);
            let follows = |row: &Row| self.shared.follows(row.job, row.holder.as_ref(), tasks);
            let followed = rows.iter().filter(has_tree).all(follows);
            if followed || tries == FOLLOW_TRIES {
                return Ok(Settled { unsettled: late || !followed, value: rows });
            }
        }
    }

    /// Returns the events of a job after `after`.
    pub async fn events(&self, id: JobId, after: Seq) -> Result<Vec<Event>, Error> {
        self.shared.settle(Some(id)).await;
        Ok(self.shared.journal.load(id, after).await?)
    }

    /// Returns a piece of the feed over all jobs, and where the next one begins.
    pub async fn feed(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<(Vec<(JobId, Event)>, Option<Cursor>), Error> {
        self.shared.settle(None).await;
        match self.shared.journal.read(Read::Feed { after, limit }).await? {
            Page::Feed { events, next } => Ok((events, next)),
            Page::Rows(_) => Ok((Vec::new(), None)),
        }
    }

    /// Waits until a job has come so far, and returns it as it is then or when the time is over.
    pub async fn wait(&self, id: JobId, until: Until, at_most: Duration) -> Result<Settled<Job>, Error> {
        let over = Instant::now() + at_most;
        let waiter = self.shared.waiter(id);
        loop {
            let changed = waiter.notify.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let job = self.job(id).await?;
            if until.is_met(&job.value) || Instant::now() >= over {
                return Ok(job);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(over) => {}
            }
        }
    }

    /// Hears of every job that has new events. A hint: whoever lags behind looks at all.
    pub fn changes(&self) -> broadcast::Receiver<JobId> {
        self.shared.changes.subscribe()
    }

    /// Opens a stream of an attempt, to be read by offset.
    pub fn recording(&self, id: JobId, attempt: AttemptNo, stream: Stream) -> Result<Recording, Error> {
        self.shared.trees.recording(id, attempt, stream).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => NoAttempt { job: id, attempt }.into(),
            _ => Error::Disk { what: format!("a recording of {id} cannot be opened"), source },
        })
    }

    /// Returns what a person should know of, oldest first.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.shared.troubles.list()
    }

    /// Returns who is alive in the tree of a job that is being stopped; some of them, if they are many.
    pub async fn alive(&self, job: &Job) -> Vec<i32> {
        match job.open_attempt().filter(|_| matches!(job.phase, Phase::Stopping { .. })) {
            Some(attempt) => self.shared.trees.alive(job.id, attempt.no).await,
            None => Vec::new(),
        }
    }

    /// Returns the job in whose tree a process is.
    pub fn holder_of(&self, pid: i32) -> Option<JobId> {
        self.shared.trees.holder_of(pid)
    }
}
