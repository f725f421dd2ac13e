//! The journal: logs of jobs, the owners that hold them, and the feed over all of them.

use std::future::Future;
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::{Life, Place};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, AttemptNo, Event, Fence, Incarnation, JobId, OwnerId, Seq, Timestamp};

use crate::hints::Hints;
use crate::{Error, Result, WaitOver};

/// Events read at once by a journal that has no shorter way to the end of its feed.
const PAGE: u32 = 1_000;

/// Remembers jobs. An owner needs nothing else to claim jobs and to drive them to their end.
pub trait Journal: Clone + Send + Sync + 'static {
    /// Returns the events of a job after `after`, oldest first. An unknown job has none.
    fn load(&self, job: JobId, after: Seq) -> impl Future<Output = Result<Vec<Event>>> + Send;

    /// Stores an append if its version and fence still hold, together with the job's row, in one atomic write, and returns once
    /// that is durable. Repeating an append that was stored is a success.
    fn append(&self, append: Append) -> impl Future<Output = Result<Seq>> + Send;

    /// Takes jobs for an owner.
    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Vec<Claimed>>> + Send;

    /// Stores an append, and claims after it, each as if called alone. A journal that can writes both at once.
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

    /// Registers an owner, or renews the lease of its life, and returns which of its jobs have news.
    fn renew(&self, renew: Renew) -> impl Future<Output = Result<Renewed>> + Send;

    /// Returns the lives that are not over.
    fn lives(&self) -> impl Future<Output = Result<Vec<Life>>> + Send;

    /// Returns the present instance and the lives that are not over, after `within` at the latest. A journal that writes renewals together
    /// answers with the next of them, which spares it a read; others wait that long and read.
    fn beats(&self, within: Duration) -> impl Future<Output = Result<Beats>> + Send {
        async move {
            tokio::time::sleep(within).await;
            let instance = self.instance().await?;
            Ok(Beats { instance, lives: self.lives().await? })
        }
    }

    /// Ends a life if `beat` is still its beat, and reports whether it did. A life that is over cannot renew, and its jobs can be taken over
    /// from anywhere. It is for a process that has seen the beat stand still for long enough, and for the owner itself once it holds nothing.
    fn end_life(&self, life: Incarnation, beat: u64) -> impl Future<Output = Result<bool>> + Send;

    /// Reports whether processes on several hosts may use the journal at once.
    fn is_shared(&self) -> bool;

    /// Returns at most `limit` jobs that an incarnation holds, oldest id first, after `after`. An owner asks when the answer to a claim was
    /// lost.
    fn held(
        &self,
        by: Incarnation,
        after: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<JobId>>> + Send;

    /// Reads the feed: events of all jobs, after a place or from the beginning. Its order never skips an event that commits late, and
    /// keeps the order of each job.
    fn read(&self, after: Option<Cursor>, limit: u32) -> impl Future<Output = Result<Feed>> + Send;

    /// Returns the place in the feed behind everything that was stored before the call; `None` if nothing was. Events stored at the
    /// same time may still come after it.
    fn feed_end(&self) -> impl Future<Output = Result<Option<Cursor>>> + Send {
        async {
            let mut place = None;
            loop {
                let page = self.read(place.clone(), PAGE).await?;
                if page.events.is_empty() {
                    return Ok(place);
                }
                place = page.next;
            }
        }
    }

    /// Returns the jobs that wait for a job. Asked after its end was stored, it names every job whose wait was stored before; a job whose
    /// wait is stored later finds that end when it looks.
    fn dependents(&self, other: JobId) -> impl Future<Output = Result<Vec<JobId>>> + Send;

    /// Returns at most `limit` waits for jobs that have ended or are not there, in the order of both ids, after `after`: what a crash left
    /// between an end and those who wait for it.
    fn waits_over(
        &self,
        after: Option<(JobId, JobId)>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<WaitOver>>> + Send;

    /// Returns where a job can be claimed now, as far as its group is not paused, and when there is more: a clerk tells workers of it. By the
    /// clock that claims use.
    fn ready(&self, now: Timestamp) -> impl Future<Output = Result<Ready>> + Send;

    /// Returns the present instance of the journal.
    fn instance(&self) -> impl Future<Output = Result<Instance>> + Send;

    /// Returns the instance that was last seen, without a look. A request that is decided on what is read afterwards carries it, see
    /// [`Append::read_in`]. `None` in a journal that is not asked for requests.
    fn instance_seen(&self) -> Option<u64>;

    /// Ends the pause of an instance, if it is still this one, and reports whether it did. For a caller that has seen this very instance
    /// pause for the longest lease and its margin, on a clock of its own.
    fn settle(&self, instance: Instance) -> impl Future<Output = Result<bool>> + Send;

    /// Returns wake-ups. Each may get lost, so a waiting reader also polls now and then.
    fn hints(&self) -> Hints;
}

/// The beats of all lives at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beats {
    /// The present instance.
    pub instance: Instance,
    /// Its lives that are not over.
    pub lives: Vec<Life>,
}

/// Where jobs can be claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The lines in which one can be claimed now, in order.
    pub lines: Vec<Line>,
    /// In how many milliseconds there is one in another line; `None` if none waits for that.
    pub next_ms: Option<u64>,
}

/// The jobs of a group that need the same labels of their worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The group.
    pub group: String,
    /// The labels, as [`WorkerLabels::key`] writes them.
    pub labels: String,
}

/// What an owner wants to take.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The owner.
    pub by: Claimant,
    /// Where from.
    pub from: Source,
    /// The labels of the owner: of ready jobs, it is given those that need no others.
    pub labels: WorkerLabels,
    /// At most so many jobs.
    pub at_most: u32,
    /// The caller's wall clock: jobs due by it may be taken. A journal with a clock of its own uses that one.
    pub now: Timestamp,
}

/// Where claimed jobs come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Ready jobs of a group: higher priority first, then the longest due, then the oldest id. Jobs of one priority that need the same labels
    /// come together, in the place of the first of them.
    Ready {
        /// Which group. If it is stored, its slots and its pause bind.
        group: String,
        /// How many jobs of a group that is not stored may be held at once, by any owner; `None` is no bound.
        slots: Option<u32>,
    },
    /// Jobs whose holder's life is over, or was replaced by a later one of the same owner, or is of another instance of the database. A
    /// job whose tree may be alive elsewhere waits until the replaced life is over too, because the keeper there counts time, not lives.
    Expired,
    /// Jobs whose open attempt is one of these, if it began at the claimant's place under a life that is over or was replaced. Its trees are
    /// alive, which proves that no other owner has the job, so this is the one claim that an instance answers while it pauses.
    Alive {
        /// The attempts whose trees are alive.
        trees: Vec<(JobId, AttemptNo)>,
    },
}

/// A job that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Which job.
    pub job: JobId,
    /// Its whole log, including the claim.
    pub events: Vec<Event>,
    /// What the owner writes under.
    pub fence: Fence,
}

/// A registration, or a renewal of a lease.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The owner.
    pub owner: OwnerId,
    /// Where it runs. In a shared journal an owner has one place, until its life there is over.
    pub place: Place,
    /// Its life; `None` registers a new one, which replaces the one before.
    pub incarnation: Option<Incarnation>,
    /// How long the lease lasts, for those who watch the beat. The caller counts it from before the call.
    pub lease_ms: u64,
}

/// An instance of a journal: the time in which nothing that was acknowledged got lost. A journal whose database lost something, because
/// another server took over or a backup was put back, goes on as another instance. Nothing that an earlier one gave counts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its number, which every incarnation carries.
    pub number: u64,
    /// Names the present pause; `None` if there is none. In a pause nothing is given out: what an earlier instance gave may still be
    /// acted on, until the longest lease is over.
    pub settling: Option<u64>,
    /// The longest lease that an owner may ask for.
    pub lease_max_ms: u64,
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The life that holds the lease.
    pub incarnation: Incarnation,
    /// Its beat.
    pub beat: u64,
    /// Held jobs that another writer changed since the holder last wrote: requests wait there.
    pub news: Vec<JobId>,
    /// Whether the instance pauses: see [`Instance::settling`].
    pub settling: bool,
}

/// A place in the feed. Opaque: only the journal that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub String);

impl Cursor {
    /// Returns the error for a cursor that this journal did not make.
    pub(crate) fn foreign(&self) -> Error {
        Error::Corrupt(format!("`{}` is not a place in this feed", self.0.escape_default()))
    }
}

/// A piece of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The events, each with its job.
    pub events: Vec<(JobId, Event)>,
    /// Where the next piece begins; the place that was given if nothing is new.
    pub next: Option<Cursor>,
}
