//! Worktrees of jobs: created before the first launch, released when the job has ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_core::receipt::{LaunchError, LaunchStep};
use lastword_core::report::{Found, Report};
use lastword_core::spec::{Spec, Worktree};
use lastword_core::{AttemptNo, JobId};
use lastword_git::{Error, Keep, Standing, WorktreeSpec, Worktrees};
use tokio::time::{Instant, sleep};

use super::gits;
use super::local::LocalHost;
use super::traits::{BoxFuture, Changes, JobWorktrees, Order, PatchPart, PatchPiece};
use crate::Unsaved;

/// How long to wait for a git of an earlier daemon. Longer than our own calls may take, since nothing ends that one.
const OUTLIVED_MAX: Duration = Duration::from_secs(900);

/// Pause between two checks whether it is done.
const OUTLIVED_PAUSE: Duration = Duration::from_millis(50);

impl JobWorktrees for LocalHost {
    fn worktree(&self, job: JobId) -> Option<PathBuf> {
        self.0.gits.as_ref().map(|gits| gits.worktrees.path(&job.to_string()))
    }

    fn leave_worktree(&self, job: JobId, keep: bool) -> BoxFuture<Result<Option<Unsaved>, String>> {
        let host = self.clone();
        let keep = if keep { Keep::Always } else { Keep::IfChanged };
        Box::pin(async move {
            let standing = host.with_git(move |worktrees| worktrees.release(&job.to_string(), keep));
            standing.await.map(unsaved).map_err(|error| error.to_string())
        })
    }

    fn unsaved(&self, job: JobId) -> BoxFuture<Result<Option<Unsaved>, String>> {
        let host = self.clone();
        Box::pin(async move {
            if !host.has_worktree(job) {
                return Ok(None);
            }
            let standing = host.with_git(move |worktrees| worktrees.standing(&job.to_string()));
            standing.await.map(unsaved).map_err(|error| error.to_string())
        })
    }

    fn changes(&self, job: JobId) -> BoxFuture<Result<Changes, String>> {
        let host = self.clone();
        Box::pin(async move {
            if !host.has_worktree(job) {
                return Ok(Changes::default());
            }
            let changes = host.with_git(move |worktrees| {
                let Some(view) = worktrees.view(&job.to_string())? else { return Ok(Changes::default()) };
                Ok(Changes { files: view.files()?, left_out: view.skipped().map(str::to_owned) })
            });
            changes.await.map_err(|error| error.to_string())
        })
    }

    fn patch(&self, job: JobId, part: PatchPart) -> BoxFuture<Result<Option<PatchPiece>, String>> {
        let host = self.clone();
        Box::pin(async move {
            if !host.has_worktree(job) {
                return Ok(part.path.is_none().then(PatchPiece::default));
            }
            let piece = host.with_git(move |worktrees| {
                let Some(view) = worktrees.view(&job.to_string())? else { return Ok(None) };
                let patch = match &part.path {
                    None => view.patch()?,
                    Some(path) => match view.files()?.iter().find(|file| file.path == *path) {
                        Some(file) => view.patch_of(file)?,
                        None => return Ok(None),
                    },
                };
                read(&patch, &part).map(Some).map_err(|error| gits::failed(error.to_string()))
            });
            piece.await.map_err(|error| error.to_string())
        })
    }

    fn worktrees(&self) -> BoxFuture<Result<Vec<JobId>, String>> {
        let host = self.clone();
        Box::pin(async move {
            if host.0.gits.is_none() {
                return Ok(Vec::new());
            }
            let names = host.with_git(|worktrees| {
                worktrees.sweep()?;
                worktrees.all()
            });
            let names = names.await.map_err(|error| error.to_string())?;
            Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
        })
    }

    fn remove_worktree(&self, job: JobId) -> BoxFuture<Result<(), String>> {
        let host = self.clone();
        Box::pin(async move {
            if !host.has_worktree(job) {
                return Ok(());
            }
            let removed = host.with_git(move |worktrees| worktrees.remove(&job.to_string()));
            removed.await.map_err(|error| error.to_string())
        })
    }
}

impl LocalHost {
    async fn with_git<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Worktrees) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        match &self.0.gits {
            Some(gits) => gits.run(run).await,
            None => Err(gits::failed("this daemon keeps none; its log says why".to_owned())),
        }
    }

    /// Creates the worktree of a job, unless it has none or it exists. A returned report says why the attempt cannot be launched; an error
    /// means: try again.
    pub(super) async fn make_worktree(
        &self,
        order: &Order,
        attempt: AttemptNo,
    ) -> Result<Option<Report>, String> {
        let job = &order.job;
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
                // Nothing was started for sure, so this is not an attempt of the job.
                Err(Error::Busy) if begun.elapsed() < OUTLIVED_MAX => sleep(OUTLIVED_PAUSE).await,
                Err(error) => break format!("cannot create its worktree: {error}"),
            }
        };
        // An earlier launch of the same attempt, whose answer was lost, may have succeeded.
        let order = order.clone();
        let located = self.blocking(move |host| host.locate_and_adopt(&order, attempt)).await??;
        Ok(Some(match located {
            Report::Located { found: Found::NeverStarted, .. } => {
                let launch_error = Some(LaunchError::at(LaunchStep::Prepare));
                Report::LaunchFailed { attempt, error, launch_error }
            }
            located => located,
        }))
    }

    /// Returns the folder that a job runs in.
    pub(super) fn cwd(&self, job: JobId, spec: &Spec) -> PathBuf {
        let in_worktree = spec.worktree.as_ref().and_then(|worktree| {
            let below = Path::new(&spec.cwd).strip_prefix(&worktree.checkout).ok()?;
            Some(self.worktree(job)?.join(below))
        });
        in_worktree.unwrap_or_else(|| {
            if spec.cwd.is_empty() { self.own_folder(job) } else { PathBuf::from(&spec.cwd) }
        })
    }

    /// Reports whether any part of a worktree is left. Costs one look at a folder: most jobs have none.
    fn has_worktree(&self, job: JobId) -> bool {
        self.0.gits.as_ref().is_some_and(|gits| gits.worktrees.has(&job.to_string()))
    }
}

fn read(patch: &File, part: &PatchPart) -> io::Result<PatchPiece> {
    let size = patch.metadata()?.len();
    // Allocate no more than there is to read.
    let room = usize::try_from(size.saturating_sub(part.offset)).unwrap_or(part.limit).min(part.limit);
    let mut bytes = vec![0; room];
    patch.read_exact_at(&mut bytes, part.offset)?;
    Ok(PatchPiece { bytes, size })
}

fn unsaved(standing: Standing) -> Option<Unsaved> {
    match standing {
        Standing::Absent | Standing::Unchanged | Standing::Saved => None,
        Standing::Ignored(files) => {
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            Some(Unsaved(format!("files that git ignores: {}", names.join(", "))))
        }
        Standing::Unsaved(work) => Some(Unsaved(work.to_string())),
    }
}
