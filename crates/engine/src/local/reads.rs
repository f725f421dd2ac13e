//! Reads in a process with a worker: each settles first, so that one is enough.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lastword_core::decide::Refusal;
use lastword_core::job::Phase;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{AttemptNo, Event, Job, JobId, Seq, Timestamp};
use lastword_store::attempts::{LiveTree, NotRead, Ran};
use lastword_store::{self as store, Filter, List, Listed, Store};
use tokio::time::{Instant, sleep_until};

use crate::host::LastWritten;
use crate::{Alive, Away, Engine, Error, NoAttempt, Part, Piece, Settled, Stream, Until};

/// How often a read is repeated because the task of a job began or ended meanwhile.
const FOLLOW_TRIES: u32 = 3;

impl<J: Store> Engine<J> {
    /// Returns the path of a job's worktree, whether it exists or not.
    pub fn worktree(&self, id: JobId) -> Option<std::path::PathBuf> {
        self.worker.host.worktree(id)
    }

    /// Waits until everything that the former life held is located, and the result stored.
    pub async fn ready(&self) {
        self.worker.until_ready().await;
    }

    /// Reports whether that is so by now.
    pub fn is_ready(&self) -> bool {
        self.worker.is_ready()
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Settled<Job>, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let tasks = self.desk().agenda.tasks.made();
            let late = self.worker.settle(Some(id)).await;
            let job = self.desk().load(id).await?;
            if matches!(job.phase, Phase::Unborn) {
                return Err(Refusal::NotFound(id).into());
            }
            let fence = job.holder.as_ref().map(|holder| &holder.fence);
            let followed = job.open_attempt().is_none() || self.worker.follows(id, fence, tasks);
            if followed || tries == FOLLOW_TRIES {
                return Ok(Settled { unsettled: late || !followed, value: job });
            }
        }
    }

    /// Returns a page of a list as people read it, and the moment from which on changes may be missing in it: after jobs whose trees have ended
    /// were settled, before it was read.
    pub async fn list(&self, list: List) -> Result<(Settled<Vec<Listed>>, Timestamp), Error> {
        let begun = AtomicU64::new(0);
        let read = || {
            begun.store(self.desk().now().wall.0, Ordering::Relaxed);
            self.desk().journal.list(list.clone())
        };
        let listed = self.settled(read, |listed: &Listed| &listed.row).await?;
        Ok((listed, Timestamp(begun.into_inner())))
    }

    /// Returns a job as a person calls it. Of one that cannot be looked up, this is its short id.
    pub async fn called(&self, id: JobId) -> String {
        let row = self.desk().row(id).await.ok().flatten();
        id.called(row.as_ref().and_then(|row| row.summary.name.as_deref()))
    }

    /// Returns rows, newest job first.
    pub async fn rows(
        &self,
        filter: Filter,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Settled<Vec<Row>>, Error> {
        self.settled(|| self.desk().journal.rows(filter.clone(), before, limit), |row: &Row| row).await
    }

    /// Reads rows after jobs whose trees have ended are settled.
    async fn settled<T, R: Future<Output = store::Result<Vec<T>>>>(
        &self,
        read: impl Fn() -> R,
        row: fn(&T) -> &Row,
    ) -> Result<Settled<Vec<T>>, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let tasks = self.desk().agenda.tasks.made();
            let late = self.worker.settle(None).await;
            let rows = read().await?;
            let has_tree =
                |row: &&Row| matches!(row.phase, PhaseName::Running | PhaseName::Idle | PhaseName::Stopping);
            let follows = |row: &Row| self.worker.follows(row.job, row.holder.as_ref(), tasks);
            let followed = rows.iter().map(row).filter(has_tree).all(follows);
            if followed || tries == FOLLOW_TRIES {
                return Ok(Settled { unsettled: late || !followed, value: rows });
            }
        }
    }

    /// Returns the events of a job after `after`.
    pub async fn events(&self, id: JobId, after: Seq) -> Result<Vec<Event>, Error> {
        self.worker.settle(Some(id)).await;
        Ok(self.desk().journal.load(id, after).await?)
    }

    /// Waits until a condition on a job holds, and returns the job as it is then or when the time is over.
    pub async fn wait(&self, id: JobId, until: Until, at_most: Duration) -> Result<Settled<Job>, Error> {
        let over = Instant::now() + at_most;
        let waiter = self.desk().changes.waiter(id);
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

    /// Returns since when a running job has written nothing, by the wall clock: since its last output, or since it was started or its state
    /// last changed.
    /// `None` if it does not run or waits for a person, or its output is elsewhere.
    pub fn silent_since(&self, row: &Row) -> Option<Timestamp> {
        if row.phase != PhaseName::Running || row.summary.waiting {
            return None;
        }
        let changed = row.summary.started_at.map_or(row.changed_at, |at| row.changed_at.max(at));
        match self.worker.host.last_written(row.job, AttemptNo(row.summary.attempts)) {
            LastWritten::At(at) => Some(changed.max(at)),
            LastWritten::Never => Some(changed),
            LastWritten::Unknown => None,
        }
    }

    /// Reads a part of a stream of an attempt, from the host that ran it.
    pub async fn read(
        &self,
        job: &Job,
        attempt: AttemptNo,
        stream: Stream,
        part: Part,
    ) -> Result<Piece, Error> {
        let missing = NoAttempt { job: job.id, attempt };
        let ran = Ran::of(job, attempt).ok_or(missing)?;
        let owner = ran.owner.clone();
        match self.worker.host.read(ran, stream, part).await {
            Ok(piece) => Ok(piece),
            Err(NotRead::NoAttempt) => Err(missing.into()),
            Err(NotRead::Failed(why)) => Err(Error::Unread { job: job.called(), why }),
            Err(NotRead::Away(since)) => {
                // A worker that beats is connected to some server.
                let lives = self.desk().journal.lives().await?;
                let may_be_elsewhere = lives.iter().any(|life| life.owner == owner);
                Err(Box::new(Away { job: job.called(), id: job.id, owner, since, may_be_elsewhere }).into())
            }
        }
    }

    /// Returns the living processes of a job that is being stopped; `None` if they are unknown.
    pub async fn alive(&self, job: &Job) -> Option<Alive> {
        let attempt = job.open_attempt().filter(|_| matches!(job.phase, Phase::Stopping { .. }))?;
        self.worker.host.alive(Ran::of(job, attempt.no)?).await
    }

    /// Returns the living processes of a job: none if no attempt of it is open, `None` if they are not known here.
    pub async fn tree(&self, job: &Job) -> Option<LiveTree> {
        match job.open_attempt() {
            Some(attempt) => self.worker.host.tree(Ran::of(job, attempt.no)?).await,
            None => Some(LiveTree::default()),
        }
    }

    /// Changes the size of a job's terminal; reports whether it was changed. The log does not have it: it belongs to the terminal that
    /// shows the job, not to the job.
    pub async fn resize(&self, id: JobId, rows: u16, columns: u16) -> Result<bool, Error> {
        let job = self.desk().load(id).await?;
        match job.open_attempt().and_then(|attempt| Ran::of(&job, attempt.no)) {
            Some(ran) => Ok(self.worker.host.resize(ran, rows, columns).await),
            None => Ok(false),
        }
    }

    /// Returns the job in whose tree a process is, by the pids and start times of itself and its ancestors.
    pub fn holder_of(&self, ancestors: &[(i32, u64)]) -> Option<JobId> {
        self.worker.host.holder_of(ancestors)
    }
}
