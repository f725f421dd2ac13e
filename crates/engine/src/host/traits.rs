//! What a worker needs of the host it runs on: clocks, keepers, the files of its jobs, and their worktrees. How attempts are read is a trait of
//! the store, because they may be elsewhere.
//!
//! [`super::LocalHost`] implements these traits with real processes; the proof implements them in a simulated world.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::ids::Incarnation;
use lastword_core::{AttemptNo, BootTime, Epoch, Job, JobId, Now, OwnerId, Timestamp};
use lastword_git::FileChange;
use lastword_store::Attempts;

pub use lastword_store::attempts::BoxFuture;

use crate::mailbox::Reports;
use crate::{Env, Unsaved};

/// An effect to carry out.
#[derive(Clone, Debug)]
pub struct Order {
    /// The job as the journal has it.
    pub job: Job,
    /// The claim under which the effect was decided.
    pub epoch: Epoch,
    /// The life of the worker that made the claim: the tree follows its lease.
    pub life: Incarnation,
    /// What to do.
    pub effect: Effect,
    /// The journal is unavailable: the keeper must record the order durably before it acts.
    pub local: bool,
}

/// Time and randomness.
pub trait Clock: Send + Sync + 'static {
    /// Returns the present.
    fn now(&self) -> Now;

    /// Returns the time since this boot, including suspends: leases are counted by it.
    fn since_boot(&self) -> BootTime;

    /// Fills in random bytes; appends and jobs are named by them.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// The keepers of this host and the trees they hold.
pub trait Keepers: Send + Sync + 'static {
    /// Returns the id of this boot of the host.
    fn boot(&self) -> Arc<str>;

    /// Carries out an effect and reports the results. Ends when there is no more to report. An error, in one line, means that the effect
    /// failed or that its result is unknown; the worker asks again after a pause.
    fn perform(&self, order: Order, reports: Reports) -> BoxFuture<Result<(), String>>;

    /// Has a keeper stop its tree although the journal cannot store that; the keeper notes the request first. Returns whether it did so on
    /// disk; otherwise it holds the request in memory.
    fn hold_stop(&self, order: Order) -> BoxFuture<Result<bool, String>>;

    /// Lets the trees of a life run until then, in milliseconds of the boot clock, and those that are launched or adopted under it later. The
    /// worker calls it after each renewal with its own deadline; until the first call, and after the time has passed, nothing is launched
    /// and what runs is ended. On a host without leases, which is the default, trees run for as long as they like.
    fn extend_lease(&self, _life: Incarnation, _until: u64) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the attempts whose keeper is connected, and so alive.
    fn kept(&self) -> Vec<(JobId, AttemptNo)> {
        Vec::new()
    }

    /// Returns the jobs whose keeper is gone and whose end was not reported yet: of one job, or of all. Costs one system call.
    fn gone(&self, of: Option<JobId>) -> Vec<JobId>;

    /// Returns how many bytes an attempt has written so far.
    fn written(&self, job: JobId, attempt: AttemptNo) -> u64;

    /// Returns the job in whose tree a process is, by the pids and start times of itself and its ancestors.
    fn holder_of(&self, ancestors: &[(i32, u64)]) -> Option<JobId>;

    /// Returns what is known of when an attempt last wrote something.
    fn last_written(&self, _: JobId, _: AttemptNo) -> LastWritten {
        LastWritten::Unknown
    }
}

/// When an attempt last wrote something, by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWritten {
    /// Then.
    At(Timestamp),
    /// It wrote nothing yet.
    Never,
    /// Its output is elsewhere.
    Unknown,
}

/// The files of jobs on this host.
pub trait JobFiles: Send + Sync + 'static {
    /// Writes the private environment of a job. A launch can read it at once; it survives a power cut only after `sync_env`. A file that
    /// a power cut left incomplete is never taken for the environment.
    fn keep_env(&self, job: JobId, env: Env) -> BoxFuture<io::Result<()>>;

    /// Makes the environment of a job durable.
    fn sync_env(&self, job: JobId) -> BoxFuture<io::Result<()>>;

    /// Removes the environment of a job.
    fn drop_env(&self, job: JobId) -> BoxFuture<io::Result<()>>;

    /// Removes the environments of all jobs that are not live: what a crash left behind. Returns how many there were.
    fn sweep_envs(&self, live: HashSet<JobId>) -> BoxFuture<io::Result<u32>>;

    /// Removes everything this host keeps of a job, and sees to it that those that ran it do so too.
    fn remove(&self, job: JobId, ran_by: Vec<OwnerId>) -> BoxFuture<io::Result<()>>;
}

/// The worktrees of jobs on this host. By default there are none.
pub trait JobWorktrees: Send + Sync + 'static {
    /// Returns the path of a job's worktree, whether it exists or not.
    fn worktree(&self, _: JobId) -> Option<PathBuf> {
        None
    }

    /// Releases the worktree of an ended job: removes it unless `keep` is set or it holds changes. Returns the work that would be lost
    /// with what is left.
    fn leave_worktree(&self, _: JobId, _keep: bool) -> BoxFuture<Result<Option<Unsaved>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the work that would be lost with the worktree of a job.
    fn unsaved(&self, _: JobId) -> BoxFuture<Result<Option<Unsaved>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the files that were changed in the worktree of a job; none if nothing is left of it.
    fn changes(&self, _: JobId) -> BoxFuture<Result<Changes, String>> {
        Box::pin(std::future::ready(Ok(Changes::default())))
    }

    /// Returns a part of the patch of a job's worktree, or of that of one file in it; `None` if that file was not changed.
    fn patch(&self, _: JobId, _: PatchPart) -> BoxFuture<Result<Option<PatchPiece>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the jobs of which any part of a worktree is left.
    fn worktrees(&self) -> BoxFuture<Result<Vec<JobId>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes the worktree of a job with all that is in it.
    fn remove_worktree(&self, _: JobId) -> BoxFuture<Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What was changed in a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The changed files.
    pub files: Vec<FileChange>,
    /// Why some files are left out, in git's words.
    pub left_out: Option<String>,
}

/// Which part of a patch to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchPart {
    /// Of this file; of all, if there is none.
    pub path: Option<PathBuf>,
    /// The offset of the first byte.
    pub offset: u64,
    /// At most so many bytes.
    pub limit: usize,
}

/// A part of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchPiece {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The size of the whole patch.
    pub size: u64,
}

/// All that a worker needs.
pub trait Host: Clock + Keepers + Attempts + JobFiles + JobWorktrees {}

impl<T: Clock + Keepers + Attempts + JobFiles + JobWorktrees> Host for T {}
