//! What is done in the world: effects in, reports out; and what can be asked of it.

mod kept;

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::{AttemptNo, Epoch, Job, JobId, Now};
use lastword_proc::Recording;

pub use crate::mailbox::Reports;
use crate::{Env, Stream, Unsaved};
pub use kept::{Kept, now};

/// Something that is being done.
pub type Doing<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An effect to be carried out.
#[derive(Clone, Debug)]
pub struct Order {
    /// For which job, as it is remembered.
    pub job: Job,
    /// Under which claim of it.
    pub epoch: Epoch,
    /// What.
    pub effect: Effect,
    /// The journal is away: whoever carries this out must remember it by itself first.
    pub local: bool,
}

/// Whoever can carry out effects: keepers of real processes, or simulated ones. It also has the clocks, and what is random,
/// so that both can be simulated with the rest.
pub trait Trees: Send + Sync + 'static {
    /// Returns the present.
    fn now(&self) -> Now;

    /// Fills in bytes that nobody else has, by which appends and jobs are named.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// Returns which boot of this host it is.
    fn boot(&self) -> Arc<str>;

    /// Carries out an effect and reports what comes of it. Ends when there is no more to report; with an error, in one line, if it
    /// could not be done or nobody knows. It will be asked for again, after a while.
    fn perform(&self, order: Order, reports: Reports) -> Doing<Result<(), String>>;

    /// Returns the jobs whose keeper is gone and whose end was not reported yet: of this one, or of all. At the price of one
    /// system call.
    fn gone(&self, of: Option<JobId>) -> Vec<JobId>;

    /// Returns how many bytes an attempt has written so far.
    fn written(&self, job: JobId, attempt: AttemptNo) -> u64;

    /// Returns who is alive in the tree of an attempt, as far as its keeper says; nobody, if it says nothing.
    fn alive(&self, _: JobId, _: AttemptNo) -> Doing<Vec<i32>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Returns the job in whose tree a process is, by its ancestry.
    fn holder_of(&self, pid: i32) -> Option<JobId>;

    /// Keeps the environment of a job until its end, private. It is there for a launch at once, and after a power cut once it is
    /// settled; what a power cut made of it before that is never taken for the environment.
    fn keep_env(&self, job: JobId, env: Env) -> Doing<io::Result<()>>;

    /// Makes the environment of a job durable.
    fn settle_env(&self, job: JobId) -> Doing<io::Result<()>>;

    /// Forgets the environment of a job.
    fn drop_env(&self, job: JobId) -> Doing<io::Result<()>>;

    /// Removes everything that was kept of a job.
    fn remove(&self, job: JobId) -> Doing<io::Result<()>>;

    /// Forgets the environments of all jobs that are not live: what a crash left behind. Returns how many there were.
    fn sweep(&self, live: HashSet<JobId>) -> Doing<io::Result<u32>>;

    /// Returns where the worktree of a job is, or would be.
    fn worktree(&self, _: JobId) -> Option<PathBuf> {
        None
    }

    /// Lets go of the worktree of a job that is over: it goes, unless it is to be kept or something was changed in it. What would be
    /// lost with what is left is returned.
    fn leave_worktree(&self, _: JobId, _keep: bool) -> Doing<Result<Option<Unsaved>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns what would be lost with the worktree of a job.
    fn unsaved(&self, _: JobId) -> Doing<Result<Option<Unsaved>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the jobs of whose worktrees anything is left.
    fn worktrees(&self) -> Doing<Result<Vec<JobId>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes the worktree of a job with all that is in it.
    fn remove_worktree(&self, _: JobId) -> Doing<Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Opens a stream of an attempt; not found, if there is no such attempt.
    fn recording(&self, job: JobId, attempt: AttemptNo, stream: Stream) -> io::Result<Recording>;
}
