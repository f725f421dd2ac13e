//! Trees kept by real keepers: one folder for each job, and in it one for each attempt.
//!
//! ```text
//! jobs/<id>/env          what its commands see; private, gone with the last word
//! jobs/<id>/<attempt>/   the keeper's own: claim, exit, stdout, stderr, its socket
//! ```

mod env;
mod launch;
mod lines;
mod locate;
mod speak;
mod talk;
mod watch;
mod wire;
mod wishes;
mod worktree;

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lastword_core::effects::Effect;
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, JobId, Now, Timestamp};
use lastword_git::Worktrees;
use lastword_proc::{self as proc, Error, Finding, Keep, Launch, Nursery, Recording, boot_id, clock};
use tokio::sync::Semaphore;

use self::lines::Lines;
use self::talk::Talk;
use self::worktree::Gits;
use super::{Doing, Order, Reports, Trees};
use crate::shared::lock;
use crate::{Env, Stream, Unsaved};

/// Launches, looks and files under way at once; each holds a thread. Most take about a millisecond; a sweep for what a dead keeper
/// left takes longer, and must leave room for the others.
const CALLS_MAX: usize = 8;

/// How long whoever only looks waits for a keeper. Its answer takes less than a millisecond, unless somebody has stopped it.
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Starts a nursery.
type Start = dyn Fn() -> Result<Nursery, Error> + Send + Sync;

/// Returns the present, by the clocks of this machine.
pub fn now() -> Now {
    Now { wall: Timestamp(clock::wall_ms()), awake: Awake(clock::awake_ms()) }
}

/// Keepers in folders below one place, started through one nursery.
#[derive(Clone)]
pub struct Kept(Arc<Inner>);

struct Inner {
    start: Box<Start>,
    /// The nursery; another is started when it is gone.
    nursery: Mutex<Arc<Nursery>>,
    place: PathBuf,
    /// How much of what a stream writes is kept.
    keep: Keep,
    lines: Lines,
    /// Worktrees of jobs; none, if none are kept here.
    gits: Option<Gits>,
    calls: Arc<Semaphore>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl Kept {
    /// Keeps jobs below `place`, which is made if it is not there. `start` starts a nursery: now, and whenever it is gone.
    pub fn new(
        place: PathBuf,
        start: impl Fn() -> Result<Nursery, Error> + Send + Sync + 'static,
    ) -> Result<Kept, Error> {
        proc::Folder::create(&place)
            .map_err(|source| Error::Io { what: format!("cannot make {}", place.display()), source })?;
        let nursery = Mutex::new(Arc::new(start()?));
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        let keep = Launch::new(&place, [""; 0]).stdout;
        Ok(Kept(Arc::new(Inner {
            start: Box::new(start),
            nursery,
            place,
            keep,
            lines: Lines::default(),
            gits: None,
            calls,
        })))
    }

    /// Keeps so many of the first and of the last bytes of each stream. To be said before it is shared.
    pub fn keeping(mut self, head: u64, tail: u64) -> Kept {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.keep = Keep::Caps { head, tail };
        }
        self
    }

    /// Keeps the worktrees of jobs here. To be said before it is shared.
    pub fn with_worktrees(mut self, worktrees: Worktrees) -> Kept {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.gits = Some(Gits::new(worktrees));
        }
        self
    }

    /// Returns what this machine was found to be able to do, and why not the rest.
    pub fn findings(&self) -> Vec<Finding> {
        lock(&self.0.nursery).findings().to_vec()
    }

    /// Returns the folder of a job.
    pub fn folder(&self, job: JobId) -> PathBuf {
        self.0.place.join(job.to_string())
    }

    /// Returns the folder of an attempt.
    pub fn dir(&self, job: JobId, attempt: AttemptNo) -> PathBuf {
        self.folder(job).join(attempt.0.to_string())
    }

    /// Runs what waits for a keeper or a disk where it holds nobody up.
    async fn blocking<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Kept) -> R + Send + 'static,
    ) -> Result<R, String> {
        let kept = self.clone();
        // Never closed.
        let place = Arc::clone(&self.0.calls).acquire_owned().await.map_err(|error| error.to_string())?;
        let ran = tokio::task::spawn_blocking(move || {
            let answer = run(&kept);
            drop(place);
            answer
        });
        ran.await.map_err(|error| error.to_string())
    }

    async fn blocking_io<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Kept) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        self.blocking(run).await.map_err(io::Error::other)?
    }
}

impl Trees for Kept {
    fn now(&self) -> Now {
        now()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }

    fn boot(&self) -> Arc<str> {
        boot_id().into()
    }

    fn perform(&self, order: Order, reports: Reports) -> Doing<Result<(), String>> {
        let kept = self.clone();
        match order.effect {
            Effect::Watch { attempt } => {
                // The job itself is not kept, nor the room for it: a watch lasts as long as its tree.
                let talk = Talk::of(&kept, &order.job, order.epoch, attempt).map(|talk| talk.map(Box::new));
                let (job, boot) = (order.job.id, locate::boot_of(&order.job, attempt));
                Box::pin(async move { kept.watch(job, attempt, boot, talk?, &reports).await })
            }
            Effect::Launch { attempt } => Box::pin(async move {
                if let Some(report) = kept.have_worktree(&order.job, attempt).await? {
                    reports.report(report).await;
                    return Ok(());
                }
                let launched =
                    kept.blocking(move |kept| kept.launch(&order.job, order.epoch, attempt)).await?;
                reports.report(launched?).await;
                Ok(())
            }),
            Effect::Locate { attempt } => Box::pin(async move {
                let looked = kept.blocking(move |kept| (kept.locate(&order.job, attempt), order));
                let (located, order) = looked.await?;
                let located = located?;
                let is_alive = matches!(located, Report::Located { found: Found::Alive { .. }, .. });
                // What an agent said before its end, and nobody heard, comes before it.
                if !is_alive && let Ok(Some(mut talk)) = Talk::of(&kept, &order.job, order.epoch, attempt) {
                    talk.hear_out(talk::exit_of(&located), &reports).await;
                }
                reports.report(located).await;
                Ok(())
            }),
            _ => Box::pin(async move { kept.speak(order, &reports).await }),
        }
    }

    fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        self.0.lines.gone(of)
    }

    fn written(&self, job: JobId, attempt: AttemptNo) -> u64 {
        proc::bytes_written(&self.dir(job, attempt))
    }

    fn alive(&self, job: JobId, attempt: AttemptNo) -> Doing<Vec<i32>> {
        let kept = self.clone();
        Box::pin(async move {
            let asked = kept.blocking(move |kept| {
                // Nobody's claim: whoever only looks is answered by any keeper.
                proc::Keeper::connect(&kept.dir(job, attempt), 0)?.with_timeout(LOOK_MAX).status()
            });
            asked.await.ok().and_then(Result::ok).map(|status| status.pids).unwrap_or_default()
        })
    }

    fn holder_of(&self, pid: i32) -> Option<JobId> {
        self.0.lines.holder_of(pid)
    }

    fn keep_env(&self, job: JobId, env: Env) -> Doing<io::Result<()>> {
        let kept = self.clone();
        Box::pin(async move {
            kept.blocking_io(move |kept| {
                kept.0.lines.env_kept(job);
                env::keep(&kept.folder(job), &env)
            })
            .await
        })
    }

    fn settle_env(&self, job: JobId) -> Doing<io::Result<()>> {
        let kept = self.clone();
        Box::pin(
            async move { kept.blocking_io(move |kept| env::settle(&kept.0.place, &kept.folder(job))).await },
        )
    }

    fn drop_env(&self, job: JobId) -> Doing<io::Result<()>> {
        let kept = self.clone();
        Box::pin(async move {
            kept.0.lines.env_dropped(job);
            kept.blocking_io(move |kept| env::forget(&kept.folder(job))).await
        })
    }

    fn remove(&self, job: JobId) -> Doing<io::Result<()>> {
        let kept = self.clone();
        Box::pin(async move {
            kept.blocking_io(move |kept| match std::fs::remove_dir_all(kept.folder(job)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            })
            .await
        })
    }

    fn sweep(&self, live: HashSet<JobId>) -> Doing<io::Result<u32>> {
        let kept = self.clone();
        Box::pin(async move {
            kept.blocking_io(move |kept| {
                env::sweep(&kept.0.place, |job| !live.contains(&job) && !kept.0.lines.has_env(job))
            })
            .await
        })
    }

    fn worktree(&self, job: JobId) -> Option<PathBuf> {
        self.worktree_path(job)
    }

    fn leave_worktree(&self, job: JobId, keep: bool) -> Doing<Result<Option<Unsaved>, String>> {
        let kept = self.clone();
        Box::pin(async move { kept.left(job, keep).await })
    }

    fn unsaved(&self, job: JobId) -> Doing<Result<Option<Unsaved>, String>> {
        let kept = self.clone();
        Box::pin(async move { kept.unsaved_in(job).await })
    }

    fn worktrees(&self) -> Doing<Result<Vec<JobId>, String>> {
        let kept = self.clone();
        Box::pin(async move { kept.all_worktrees().await })
    }

    fn remove_worktree(&self, job: JobId) -> Doing<Result<(), String>> {
        let kept = self.clone();
        Box::pin(async move { kept.removed_worktree(job).await })
    }

    fn recording(&self, job: JobId, attempt: AttemptNo, stream: Stream) -> io::Result<Recording> {
        Recording::open(&self.dir(job, attempt), stream.name()).map_err(|error| match error {
            Error::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })
    }
}
