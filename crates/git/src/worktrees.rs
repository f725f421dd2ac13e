//! All worktrees below one folder: made so that a crash at any point can be made good, and removed in the same way.
//!
//! Each has a [record](crate::record) beside it, written before the first thing that it announces is done, and a lock that the git at
//! work on it holds as well: whoever comes after a crash waits for no half-finished git, and touches nothing before it.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::record::{Record, Stage};
use crate::run::{Repository, listing};
use crate::standing::{self, Standing};
use crate::{Error, Git, scratch};

/// How often it is tried beside gits of others that write to the same repository, and what is waited between two tries.
const TRIES_MAX: usize = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A worktree as it is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name, which nothing else below the same folder has: a plain word.
    pub id: &'a str,
    /// The repository's own folder.
    pub git_dir: &'a Path,
    /// The commit at which it begins.
    pub base: &'a str,
    /// Its branch, without `refs/heads/`.
    pub branch: &'a str,
}

/// What becomes of a worktree that nobody works in any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It goes if nothing was changed in it.
    IfChanged,
    /// It stays.
    Always,
}

/// Worktrees below one folder.
#[derive(Debug)]
pub struct Worktrees {
    git: Git,
    place: PathBuf,
    /// What somebody in this process is at work on: worktrees, and what a repository keeps of all of its worktrees.
    busy: Mutex<HashSet<PathBuf>>,
    done: Condvar,
}

impl Worktrees {
    /// Keeps worktrees below `place`, which is made for this user alone if it is not there.
    pub fn new(git: Git, place: &Path) -> Result<Worktrees, Error> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place);
        // Where a link leads to is what git will note.
        let place = made.and_then(|()| std::fs::canonicalize(place));
        let place = place.map_err(Error::disk("cannot make the folder of worktrees"))?;
        Ok(Worktrees { git, place, busy: Mutex::default(), done: Condvar::new() })
    }

    /// Returns where a worktree is, or would be.
    pub fn path(&self, id: &str) -> PathBuf {
        self.place.join(id)
    }

    /// Returns the names of all worktrees of which anything is left.
    pub fn all(&self) -> Result<Vec<String>, Error> {
        Record::all(&self.place)
    }

    /// Reports whether anything of a worktree is left.
    pub fn has(&self, id: &str) -> bool {
        !matches!(Record::read(&self.place, id), Ok(None))
    }

    /// Makes a worktree, or finds it made. What an earlier try left half made is removed first.
    pub fn make(&self, wanted: Wanted<'_>) -> Result<PathBuf, Error> {
        let lock = self.lock(wanted.id)?;
        let folder = self.path(wanted.id);
        let made = Record::read(&self.place, wanted.id)?.is_some_and(|record| record.stage == Stage::Made);
        // Whatever an earlier attempt did to it: it is its work.
        if made && folder.is_dir() {
            return Ok(folder);
        }
        let record = |stage| Record {
            git_dir: wanted.git_dir.to_owned(),
            base: wanted.base.to_owned(),
            branch: wanted.branch.to_owned(),
            stage,
        };
        let repository = Repository::open(&self.git, wanted.git_dir)?;
        record(Stage::Making).write(&self.place, wanted.id)?;
        let_go(&record(Stage::Making));
        let added = undisturbed(wanted.git_dir, || {
            self.clear(&record(Stage::Making), wanted.id)?;
            self.add(&repository, wanted, &lock.file)
        });
        if let Err(error) = added {
            // Nobody has worked in it: what is left of it is nobody's work.
            self.take_away(&record(Stage::Removing { tip: Some(wanted.base.to_owned()) }), wanted.id, &lock)?;
            return Err(error);
        }
        record(Stage::Made).write(&self.place, wanted.id)?;
        Ok(folder)
    }

    /// Has git note the worktree, one at a time in a repository, and write its files, many at a time.
    fn add(&self, repository: &Repository, wanted: Wanted<'_>, lock: &File) -> Result<(), Error> {
        let is_there = repository.commit(&format!("refs/heads/{}", wanted.branch))?.is_some();
        let folder = self.path(wanted.id);
        let mut call = repository.call();
        call.holding(lock).words(["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason"]);
        call.word(format!("{} of lastword works in it", wanted.id));
        if !is_there {
            call.words(["--no-track", "-b", wanted.branch]);
        }
        call.word(&folder).word(if is_there { wanted.branch } else { wanted.base });
        {
            let _turn = self.turn(listing(wanted.git_dir));
            call.get()?;
        }
        let mut call = repository.call_in(&repository.own_dir(wanted.id));
        call.holding(lock).env("GIT_WORK_TREE", &folder).in_folder(&folder);
        call.words(["reset", "--hard", "--quiet", "--no-recurse-submodules"]).get().map(drop)
    }

    /// Looks at what would be lost with a worktree.
    pub fn standing(&self, id: &str) -> Result<Standing, Error> {
        let _lock = self.lock(id)?;
        self.look(id)
    }

    fn look(&self, id: &str) -> Result<Standing, Error> {
        match Record::read(&self.place, id)? {
            None | Some(Record { stage: Stage::Removing { .. }, .. }) => Ok(Standing::Absent),
            Some(record) => standing::of(&self.git, &self.place, id, &record),
        }
    }

    /// Does what is due for a worktree that nobody works in any more: goes on with a removal, unlocks it, and removes it if it is to
    /// go. Returns how it stands after that.
    pub fn leave(&self, id: &str, left: Left) -> Result<Standing, Error> {
        let lock = self.lock(id)?;
        let Some(record) = Record::read(&self.place, id)? else { return Ok(Standing::Absent) };
        if record.stage != Stage::Made {
            let_go(&record);
        }
        if matches!(record.stage, Stage::Removing { .. }) {
            self.take_away(&record, id, &lock)?;
            return Ok(Standing::Absent);
        }
        unlock(&record.git_dir, id);
        let standing = self.look(id)?;
        let is_half = record.stage == Stage::Making;
        if standing == Standing::Unchanged && (left == Left::IfChanged || is_half) {
            self.remove_recorded(record, id, &lock)?;
            return Ok(Standing::Absent);
        }
        Ok(standing)
    }

    /// Removes a worktree with its branch, whatever is in it. A branch that somebody has checked out elsewhere stays.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        let lock = self.lock(id)?;
        match Record::read(&self.place, id)? {
            None => Ok(()),
            Some(record) if matches!(record.stage, Stage::Removing { .. }) => {
                let_go(&record);
                self.take_away(&record, id, &lock)
            }
            Some(record) => self.remove_recorded(record, id, &lock),
        }
    }

    /// Removes what looks of processes that are gone left.
    pub fn sweep(&self) -> Result<(), Error> {
        scratch::sweep(&self.place).map_err(Error::disk(format!("cannot tidy {}", self.place.display())))
    }

    fn remove_recorded(&self, record: Record, id: &str, lock: &Lock<'_>) -> Result<(), Error> {
        let branch = format!("refs/heads/{}", record.branch);
        let tip =
            Repository::open(&self.git, &record.git_dir).and_then(|repository| repository.commit(&branch));
        // A repository that is gone, or cannot be read, has no branch that could be removed.
        let tip = tip.unwrap_or(None);
        let record = Record { stage: Stage::Removing { tip }, ..record };
        record.write(&self.place, id)?;
        self.take_away(&record, id, lock)
    }

    /// Takes away what the record of a removal says, as far as it is still there; the record itself goes last.
    fn take_away(&self, record: &Record, id: &str, lock: &Lock<'_>) -> Result<(), Error> {
        if let (Stage::Removing { tip: Some(tip) }, true) = (&record.stage, record.git_dir.exists()) {
            let repository = Repository::open(&self.git, &record.git_dir)?;
            self.drop_branch(&repository, &record.branch, tip, id, &lock.file)?;
        }
        self.clear(record, id)?;
        Record::remove(&self.place, id)
    }

    /// Deletes a branch that stands where it is said to, unless it is checked out somewhere else.
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
        let holder = undisturbed(&repository.dir, || {
            repository.call().words(["for-each-ref", "--format=%(worktreepath)", &name]).line()
        })?;
        if !holder.is_empty() && Path::new(&holder) != self.path(id) {
            return Ok(());
        }
        let mut call = repository.call();
        call.holding(lock).words(["update-ref", "-d", &name, tip]).get().map(drop)
    }

    /// Removes the folder, and what git keeps of it in the repository.
    fn clear(&self, record: &Record, id: &str) -> Result<(), Error> {
        let folder = self.path(id);
        let own = own_dir(&record.git_dir, id);
        // Only what says itself that it is about our folder.
        let noted = std::fs::read_to_string(own.join("gitdir")).unwrap_or_default();
        let is_ours = Path::new(noted.trim_end()) == folder.join(".git") || noted.is_empty();
        if own.is_dir() && is_ours {
            let _turn = self.turn(listing(&record.git_dir));
            // First what makes it a worktree: no git of others is to find half of one.
            let _ = std::fs::remove_file(own.join("gitdir"));
            remove_all(&own)?;
            // As git does: an empty folder of worktrees is none.
            let _ = std::fs::remove_dir(listing(&record.git_dir));
        }
        remove_all(&folder)
    }

    /// Waits until nobody in this process is at work on a worktree, and makes sure that nobody else is.
    fn lock(&self, id: &str) -> Result<Lock<'_>, Error> {
        let turn = self.turn(self.path(id));
        let path = self.place.join(format!("{id}.lock"));
        let file = File::options().create(true).truncate(false).write(true).read(true).open(&path);
        let file = file.map_err(Error::disk(format!("cannot open {}", path.display())))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Busy)?;
        Ok(Lock { id: id.to_owned(), path, file, turn })
    }

    /// Waits until nobody in this process is at work on something.
    fn turn(&self, on: PathBuf) -> Turn<'_> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while busy.contains(&on) {
            busy = self.done.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy.insert(on.clone());
        Turn { of: self, on }
    }
}

/// The right to touch a worktree.
struct Lock<'a> {
    id: String,
    path: PathBuf,
    file: File,
    turn: Turn<'a>,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // The file goes with the last that was there of the worktree.
        if matches!(Record::read(&self.turn.of.place, &self.id), Ok(None)) {
            let _ = std::fs::remove_file(&self.path);
        }
        // Said, not left to the closing of the file: a process that is just being started may still have it open.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The time during which nobody else in this process is at work on the same.
struct Turn<'a> {
    of: &'a Worktrees,
    on: PathBuf,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.of.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.on);
        self.of.done.notify_all();
    }
}

/// Tries something again if git says no because of what the repository keeps of other worktrees. It reads all of that, and fails over
/// what another git has only begun to write.
fn undisturbed<T>(git_dir: &Path, mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let listing = listing(git_dir).to_string_lossy().into_owned();
    for _ in 1..TRIES_MAX {
        match attempt() {
            Err(Error::Failed { said, .. }) if said.contains(&listing) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "nobody says when a git of somebody else is done"
                )]
                std::thread::sleep(BETWEEN_TRIES);
            }
            other => return other,
        }
    }
    attempt()
}

/// Removes the lock that a git which was killed in the middle of it holds on the branch. Whoever found the record half done knows
/// that none of ours is at work, and the name is nobody else's.
fn let_go(record: &Record) {
    let _ = std::fs::remove_file(record.git_dir.join(format!("refs/heads/{}.lock", record.branch)));
}

/// Returns the folder that git keeps for a worktree in its repository.
fn own_dir(git_dir: &Path, id: &str) -> PathBuf {
    listing(git_dir).join(id)
}

/// Lets git remove the worktree again, if its user says so. Nobody works in it any more.
fn unlock(git_dir: &Path, id: &str) {
    let _ = std::fs::remove_file(own_dir(git_dir, id).join("locked"));
}

/// Removes a folder with all that is in it, also from folders that may only be read.
fn remove_all(folder: &Path) -> Result<(), Error> {
    let removed = match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder).and_then(|()| std::fs::remove_dir_all(folder))
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

/// Makes every folder below one writable for its owner.
fn open_up(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
