//! All worktrees below one folder. Creation and removal recover from a crash at any point.
//!
//! Each worktree has a [record](crate::record) beside it, written before the step it announces, and a lock that a running git holds as
//! well: after a crash, no daemon touches a worktree while a leftover git still works on it.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::record::{Record, Stage};
use crate::run::{Repository, worktrees_dir};
use crate::standing::{self, Standing};
use crate::view::View;
use crate::{Error, Git, ignored, scratch};

/// Attempts when concurrent git processes of other programs make ours fail, and the pause between two attempts.
const ATTEMPTS_MAX: usize = 50;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A worktree to create.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeSpec<'a> {
    /// Its name: a plain word, unique below the folder.
    pub id: &'a str,
    /// The common git directory of the repository.
    pub git_dir: &'a Path,
    /// The commit it starts from.
    pub base: &'a str,
    /// Its branch, without `refs/heads/`.
    pub branch: &'a str,
}

/// What happens to a worktree once its job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It is removed unless something was changed in it.
    IfChanged,
    /// It is kept.
    Always,
}

/// Worktrees below one folder.
#[derive(Debug)]
pub struct Worktrees {
    git: Git,
    /// The folder that has the worktrees, their records and their locks.
    place: PathBuf,
    /// Paths this process is working on: worktrees, and the `worktrees` folders of repositories.
    busy: Mutex<HashSet<PathBuf>>,
    /// A path is no longer busy.
    done: Condvar,
}

impl Worktrees {
    /// Manages the worktrees below `place`, which is created with mode 0700 if missing.
    pub fn new(git: Git, place: &Path) -> Result<Worktrees, Error> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place);
        // Git records resolved paths.
        let place = made.and_then(|()| std::fs::canonicalize(place));
        let place = place.map_err(Error::disk("cannot create the folder for worktrees"))?;
        Ok(Worktrees { git, place, busy: Mutex::default(), done: Condvar::new() })
    }

    /// Returns the path of a worktree, whether it exists or not.
    pub fn path(&self, id: &str) -> PathBuf {
        self.place.join(id)
    }

    /// Returns the ids of all worktrees of which anything is left.
    pub fn all(&self) -> Result<Vec<String>, Error> {
        Record::all(&self.place)
    }

    /// Reports whether anything is left of a worktree. A record that cannot be read counts.
    pub fn has(&self, id: &str) -> bool {
        !matches!(Record::read(&self.place, id), Ok(None))
    }

    /// Takes a snapshot of what was changed in a worktree; `None` if nothing is left of it.
    pub fn view(&self, id: &str) -> Result<Option<View>, Error> {
        let Some(record) = Record::read(&self.place, id)? else { return Ok(None) };
        match record.stage {
            Stage::Made => {
                View::open(&self.git, &record.git_dir, &self.path(id), &record.base, &record.branch)
            }
            Stage::Making | Stage::Removing { .. } => Ok(None),
        }
    }

    /// Creates a worktree unless it exists. First removes what an interrupted attempt left.
    pub fn make(&self, spec: WorktreeSpec<'_>) -> Result<PathBuf, Error> {
        let lock = self.lock(spec.id)?;
        let folder = self.path(spec.id);
        let is_made = Record::read(&self.place, spec.id)?.is_some_and(|record| record.stage == Stage::Made);
        // An earlier attempt of the job may have worked in it: its changes are kept.
        if is_made && folder.is_dir() {
            return Ok(folder);
        }
        let record = |stage| Record {
            git_dir: spec.git_dir.to_owned(),
            base: spec.base.to_owned(),
            branch: spec.branch.to_owned(),
            stage,
        };
        let repository = Repository::open(&self.git, spec.git_dir)?;
        record(Stage::Making).write(&self.place, spec.id)?;
        remove_stale_branch_lock(&record(Stage::Making));
        let added = retry_on_foreign_worktrees(spec.git_dir, || {
            self.clear(&record(Stage::Making), spec.id)?;
            self.add(&repository, spec, &lock.file)
        });
        if let Err(error) = added {
            // No job has run in it, so there is no work to lose.
            self.complete_removal(
                &record(Stage::Removing { tip: Some(spec.base.to_owned()) }),
                spec.id,
                &lock,
            )?;
            return Err(error);
        }
        record(Stage::Made).write(&self.place, spec.id)?;
        Ok(folder)
    }

    /// Registers the worktree, one at a time per repository, then writes its files, concurrently with others.
    fn add(&self, repository: &Repository, spec: WorktreeSpec<'_>, lock: &File) -> Result<(), Error> {
        // An interrupted attempt may have created the branch.
        let has_branch = repository.commit(&format!("refs/heads/{}", spec.branch))?.is_some();
        let folder = self.path(spec.id);
        let mut call = repository.call();
        call.holding(lock).args(["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason"]);
        call.arg(format!("in use by lastword {}", spec.id));
        if !has_branch {
            call.args(["--no-track", "-b", spec.branch]);
        }
        call.arg(&folder).arg(if has_branch { spec.branch } else { spec.base });
        {
            let _claim = self.claim(worktrees_dir(spec.git_dir));
            call.stdout()?;
        }
        let mut call = repository.call_in_worktree(&repository.admin_dir(spec.id));
        call.holding(lock).env("GIT_WORK_TREE", &folder).in_folder(&folder);
        call.args(["reset", "--hard", "--quiet", "--no-recurse-submodules"]).stdout().map(drop)
    }

    /// Determines what would be lost if a worktree were removed.
    pub fn standing(&self, id: &str) -> Result<Standing, Error> {
        let _lock = self.lock(id)?;
        self.standing_locked(id)
    }

    /// Like [`Worktrees::standing`], for a caller that has the lock.
    fn standing_locked(&self, id: &str) -> Result<Standing, Error> {
        match Record::read(&self.place, id)? {
            None | Some(Record { stage: Stage::Removing { .. }, .. }) => Ok(Standing::Absent),
            Some(record) => standing::of(&self.git, &self.place, id, &record),
        }
    }

    /// Releases a worktree whose job is over: finishes an interrupted removal, removes git's lock, and removes the worktree if nothing was
    /// changed in it, no file that git ignores may be a result, and `keep` allows it, or if it was never complete. Returns its standing after
    /// that.
    pub fn release(&self, id: &str, keep: Keep) -> Result<Standing, Error> {
        let lock = self.lock(id)?;
        let Some(record) = Record::read(&self.place, id)? else { return Ok(Standing::Absent) };
        if record.stage != Stage::Made {
            remove_stale_branch_lock(&record);
        }
        if matches!(record.stage, Stage::Removing { .. }) {
            self.complete_removal(&record, id, &lock)?;
            return Ok(Standing::Absent);
        }
        unlock(&record.git_dir, id);
        let standing = self.standing_locked(id)?;
        let is_incomplete = record.stage == Stage::Making;
        if standing == Standing::Unchanged && (keep == Keep::IfChanged || is_incomplete) {
            let results = if is_incomplete { Vec::new() } else { self.results(&record, id)? };
            if !results.is_empty() {
                return Ok(Standing::Ignored(results));
            }
            self.record_and_remove(record, id, &lock)?;
            return Ok(Standing::Absent);
        }
        Ok(standing)
    }

    /// Returns ignored files that may be results of the job.
    fn results(&self, record: &Record, id: &str) -> Result<Vec<PathBuf>, Error> {
        let repository = Repository::open(&self.git, &record.git_dir)?;
        let ignored = ignored::list(&repository, &self.path(id))?;
        Ok(ignored.into_iter().filter(|found| !found.is_usual).map(|found| found.path).collect())
    }

    /// Removes a worktree and its branch, whatever they hold. A branch that is checked out elsewhere is kept.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        let lock = self.lock(id)?;
        match Record::read(&self.place, id)? {
            None => Ok(()),
            Some(record) if matches!(record.stage, Stage::Removing { .. }) => {
                remove_stale_branch_lock(&record);
                self.complete_removal(&record, id, &lock)
            }
            Some(record) => self.record_and_remove(record, id, &lock),
        }
    }

    /// Removes the scratch space of dead processes.
    pub fn sweep(&self) -> Result<(), Error> {
        scratch::sweep(&self.place).map_err(Error::disk(format!("cannot clean up {}", self.place.display())))
    }

    /// Removes a worktree. Records that, with the tip of the branch, before anything is removed: after a crash, the branch is deleted only
    /// if it still points there.
    fn record_and_remove(&self, record: Record, id: &str, lock: &Lock<'_>) -> Result<(), Error> {
        let branch = format!("refs/heads/{}", record.branch);
        let tip =
            Repository::open(&self.git, &record.git_dir).and_then(|repository| repository.commit(&branch));
        // If the repository is gone or unreadable, there is no branch to delete.
        let tip = tip.unwrap_or(None);
        let record = Record { stage: Stage::Removing { tip }, ..record };
        record.write(&self.place, id)?;
        self.complete_removal(&record, id, lock)
    }

    /// Completes a removal: removes the branch, the folders and, last, the record. Each step can be repeated after a crash.
    fn complete_removal(&self, record: &Record, id: &str, lock: &Lock<'_>) -> Result<(), Error> {
        if let (Stage::Removing { tip: Some(tip) }, true) = (&record.stage, record.git_dir.exists()) {
            let repository = Repository::open(&self.git, &record.git_dir)?;
            self.drop_branch(&repository, &record.branch, tip, id, &lock.file)?;
        }
        self.clear(record, id)?;
        Record::remove(&self.place, id)
    }

    /// Deletes a branch if it still points to `tip` and is not checked out elsewhere.
    fn drop_branch(
        &self,
        repository: &Repository,
        branch: &str,
        tip: &str,
        id: &str,
        lock: &File,
    ) -> Result<(), Error> {
        let name = format!("refs/heads/{branch}");
        if repository.commit(&name)?.is_none_or(|now| now != tip) {
            return Ok(());
        }
        let checked_out_at = retry_on_foreign_worktrees(&repository.dir, || {
            repository.call().args(["for-each-ref", "--format=%(worktreepath)", &name]).line()
        })?;
        if !checked_out_at.is_empty() && Path::new(&checked_out_at) != self.path(id) {
            return Ok(());
        }
        let mut call = repository.call();
        call.holding(lock).args(["update-ref", "-d", &name, tip]).stdout().map(drop)
    }

    /// Removes the worktree's folder and git's administrative folder of it.
    fn clear(&self, record: &Record, id: &str) -> Result<(), Error> {
        let folder = self.path(id);
        let admin = admin_dir(&record.git_dir, id);
        // Another worktree may use the same name: remove the administrative folder only if it refers to our folder. Without `gitdir` it is
        // half created or half removed.
        let gitdir = std::fs::read_to_string(admin.join("gitdir")).unwrap_or_default();
        let is_ours = Path::new(gitdir.trim_end()) == folder.join(".git") || gitdir.is_empty();
        if admin.is_dir() && is_ours {
            let _claim = self.claim(worktrees_dir(&record.git_dir));
            // `gitdir` first: without it, a concurrent git ignores the half-removed entry.
            let _ = std::fs::remove_file(admin.join("gitdir"));
            remove_all(&admin)?;
            // Git, too, removes this folder once it is empty.
            let _ = std::fs::remove_dir(worktrees_dir(&record.git_dir));
        }
        remove_all(&folder)
    }

    /// Waits until no thread of this process works on a worktree, then locks it against other processes. Fails with [`Error::Busy`] if
    /// another process, such as a git that outlived its daemon, has the lock.
    fn lock(&self, id: &str) -> Result<Lock<'_>, Error> {
        let claim = self.claim(self.path(id));
        let path = self.place.join(format!("{id}.lock"));
        let file = File::options().create(true).truncate(false).write(true).read(true).open(&path);
        let file = file.map_err(Error::disk(format!("cannot open {}", path.display())))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Busy)?;
        Ok(Lock { id: id.to_owned(), path, file, claim })
    }

    /// Waits until no thread of this process works on a path, and claims it until the result is dropped.
    fn claim(&self, path: PathBuf) -> Claim<'_> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while busy.contains(&path) {
            busy = self.done.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy.insert(path.clone());
        Claim { worktrees: self, path }
    }
}

/// Exclusive access to a worktree, within and across processes.
struct Lock<'a> {
    id: String,
    path: PathBuf,
    file: File,
    claim: Claim<'a>,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Remove the lock file once nothing else is left of the worktree.
        if matches!(Record::read(&self.claim.worktrees.place, &self.id), Ok(None)) {
            let _ = std::fs::remove_file(&self.path);
        }
        // Unlock explicitly: a process forked at this moment may hold a copy of the descriptor.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Exclusive access to a path within this process.
struct Claim<'a> {
    worktrees: &'a Worktrees,
    path: PathBuf,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.worktrees.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
        self.worktrees.done.notify_all();
    }
}

/// Retries while git fails because of another worktree's entry. Git reads all entries, and fails on one that a concurrent git has only
/// half written.
fn retry_on_foreign_worktrees<T>(
    git_dir: &Path,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let worktrees_dir = worktrees_dir(git_dir).to_string_lossy().into_owned();
    for _ in 1..ATTEMPTS_MAX {
        match attempt() {
            // Git names the path of the entry that it cannot read.
            Err(Error::Failed { message, .. }) if message.contains(&worktrees_dir) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a foreign git does not signal when it is done"
                )]
                std::thread::sleep(RETRY_PAUSE);
            }
            other => return other,
        }
    }
    attempt()
}

/// Removes the branch lock of a git that was killed. Call it with the lock of the worktree, so that no git of ours is running; other
/// programs do not use the branch of a job.
fn remove_stale_branch_lock(record: &Record) {
    let _ = std::fs::remove_file(record.git_dir.join(format!("refs/heads/{}.lock", record.branch)));
}

/// Returns git's administrative folder of a worktree.
fn admin_dir(git_dir: &Path, id: &str) -> PathBuf {
    worktrees_dir(git_dir).join(id)
}

/// Removes git's lock on the worktree, so that the user can remove it with git.
fn unlock(git_dir: &Path, id: &str) {
    let _ = std::fs::remove_file(admin_dir(git_dir, id).join("locked"));
}

/// Removes a folder and its contents, including read-only subfolders.
fn remove_all(folder: &Path) -> Result<(), Error> {
    let removed = match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder).and_then(|()| std::fs::remove_dir_all(folder))
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::Disk { what: format!("cannot remove {}", folder.display()), source: error })
        }
        _ => Ok(()),
    }
}

/// Makes every folder below one writable by its owner.
fn make_writable(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}
