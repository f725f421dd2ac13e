//! Worktrees of jobs: made before the first launch, left when the job is over.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_core::report::{Found, Report};
use lastword_core::spec::{Spec, Worktree};
use lastword_core::{AttemptNo, Job, JobId};
use lastword_git::{Error, Keep, Standing, WorktreeSpec, Worktrees};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::Kept;
use crate::Unsaved;

/// Gits at work at once. Each holds a thread, perhaps for minutes; two keep a disk busy.
const GITS_MAX: usize = 2;

/// How long a git that outlived the supervisor which started it is waited for. It is longer than a git of ours may take: nobody ends it.
const OUTLIVED_MAX: Duration = Duration::from_secs(900);

/// The pause between two looks at whether it is done.
const OUTLIVED_LOOK: Duration = Duration::from_millis(50);

/// Worktrees, and who waits for one.
pub(super) struct Gits {
    worktrees: Arc<Worktrees>,
    places: Arc<Semaphore>,
}

impl Gits {
    pub(super) fn new(worktrees: Worktrees) -> Gits {
        Gits { worktrees: Arc::new(worktrees), places: Arc::new(Semaphore::new(GITS_MAX)) }
    }
}

/// Variables by which git is led to another repository than that of the folder it runs in.
pub(super) const LEADING_ASTRAY: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

impl Kept {
    /// Runs git where it holds nobody up.
    async fn with_git<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Worktrees) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let unable = |why: String| Error::Disk {
            what: "worktrees cannot be looked after".to_owned(),
            source: io::Error::other(why),
        };
        let gits = self
            .0
            .gits
            .as_ref()
            .ok_or_else(|| unable("this supervisor keeps none, and its log says why".to_owned()))?;
        let worktrees = Arc::clone(&gits.worktrees);
        // Never closed.
        let place = Arc::clone(&gits.places).acquire_owned().await;
        let place = place.map_err(|error| unable(error.to_string()))?;
        let ran = tokio::task::spawn_blocking(move || {
            let answer = run(&worktrees);
            drop(place);
            answer
        });
        ran.await.map_err(|error| unable(error.to_string()))?
    }

    /// Makes the worktree that a job wants, or finds it made. A report is why the attempt cannot be launched; an error means that it is
    /// to be tried again.
    pub(super) async fn have_worktree(
        &self,
        job: &Job,
        attempt: AttemptNo,
    ) -> Result<Option<Report>, String> {
        let Some((spec, wanted)) = job.spec.as_ref().and_then(|spec| Some((spec, spec.worktree.clone()?)))
        else {
            return Ok(None);
        };
        let (id, branch) = (job.id.to_string(), Worktree::branch(spec.name.as_deref(), job.id));
        let begun = Instant::now();
        let error = loop {
            let (id, branch, wanted) = (id.clone(), branch.clone(), wanted.clone());
            let made = self.with_git(move |worktrees| {
                let (git_dir, base) = (Path::new(&wanted.git_dir), wanted.base.as_str());
                worktrees.make(WorktreeSpec { id: &id, git_dir, base, branch: &branch })
            });
            match made.await {
                Ok(_) => return Ok(None),
                // Nothing was started, and nothing is in doubt: it is no try of the job.
                Err(Error::Busy) if begun.elapsed() < OUTLIVED_MAX => sleep(OUTLIVED_LOOK).await,
                Err(error) => break format!("its worktree cannot be made: {error}"),
            }
        };
        // An earlier launch of the same attempt, whose answer was lost, may have found it.
        let job = job.clone();
        let located = self.blocking(move |kept| kept.locate(&job, attempt)).await??;
        Ok(Some(match located {
            Report::Located { found: Found::NeverStarted, .. } => Report::LaunchFailed { attempt, error },
            located => located,
        }))
    }

    /// Returns the folder that a job runs in.
    pub(super) fn cwd(&self, job: JobId, spec: &Spec) -> PathBuf {
        let in_worktree = spec.worktree.as_ref().and_then(|worktree| {
            let below = Path::new(&spec.cwd).strip_prefix(&worktree.checkout).ok()?;
            Some(self.worktree_path(job)?.join(below))
        });
        in_worktree.unwrap_or_else(|| PathBuf::from(&spec.cwd))
    }

    /// Returns where the worktree of a job is, or would be.
    pub(super) fn worktree_path(&self, job: JobId) -> Option<PathBuf> {
        self.0.gits.as_ref().map(|gits| gits.worktrees.path(&job.to_string()))
    }

    /// Reports whether anything is left of the worktree of a job, at the price of a look at a folder: most jobs have none.
    fn has_worktree(&self, job: JobId) -> bool {
        self.0.gits.as_ref().is_some_and(|gits| gits.worktrees.has(&job.to_string()))
    }

    /// Lets go of a worktree in which nobody works any more; says what would be lost with what is left of it.
    pub(super) async fn left(&self, job: JobId, keep: bool) -> Result<Option<Unsaved>, String> {
        let left = if keep { Keep::Always } else { Keep::IfChanged };
        let standing = self.with_git(move |worktrees| worktrees.release(&job.to_string(), left));
        standing.await.map(unsaved).map_err(|error| error.to_string())
    }

    pub(super) async fn unsaved_in(&self, job: JobId) -> Result<Option<Unsaved>, String> {
        if !self.has_worktree(job) {
            return Ok(None);
        }
        let standing = self.with_git(move |worktrees| worktrees.standing(&job.to_string()));
        standing.await.map(unsaved).map_err(|error| error.to_string())
    }

    pub(super) async fn all_worktrees(&self) -> Result<Vec<JobId>, String> {
        if self.0.gits.is_none() {
            return Ok(Vec::new());
        }
        let names = self.with_git(|worktrees| {
            worktrees.sweep()?;
            worktrees.all()
        });
        let names = names.await.map_err(|error| error.to_string())?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(super) async fn removed_worktree(&self, job: JobId) -> Result<(), String> {
        if !self.has_worktree(job) {
            return Ok(());
        }
        let removed = self.with_git(move |worktrees| worktrees.remove(&job.to_string()));
        removed.await.map_err(|error| error.to_string())
    }
}

fn unsaved(standing: Standing) -> Option<Unsaved> {
    match standing {
        Standing::Absent | Standing::Unchanged | Standing::Saved => None,
        Standing::Unsaved(work) => Some(Unsaved(work.to_string())),
    }
}
