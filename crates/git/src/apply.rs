//! Applies the changes of a worktree to a checkout: all of them, or none.
//!
//! A three-way merge with the checked-out commit runs in a private index. Each affected file must then be either as committed, and is
//! written, or already as merged; otherwise nothing is done. Applying is therefore idempotent, and repeating it completes what a crash
//! interrupted. A file that is saved after that look is not overwritten: see [`swap`](crate::swap). Neither index nor branch of the checkout
//! is touched. A lock admits one apply per checkout: two would take each other's
//! files for uncommitted work of the user, and undo them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::run::{Invocation, stderr_line};
use crate::swap::{Seen, Swaps, Trouble};
use crate::view::{nul_terminated, parents};
use crate::{Error, FileChange, Git, Kind, View, record};

/// The file operations that apply a worktree's changes to a checkout.
#[derive(Debug)]
pub struct Plan<'a> {
    view: &'a View,
    top: PathBuf,
    git_dir: PathBuf,
    head: String,
    /// The affected files, as they were before they were compared.
    seen: BTreeMap<PathBuf, Option<Seen>>,
    /// Files to create or overwrite.
    write: Vec<PathBuf>,
    /// Files to delete.
    remove: Vec<PathBuf>,
    /// Held so that no other apply changes this checkout.
    _lock: File,
}

/// Why the changes cannot be applied to a checkout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyRefusal {
    /// The checkout is missing, or belongs to another repository.
    #[error("{0}")]
    NoCheckout(String),
    /// An unfinished merge.
    #[error("the checkout has unresolved conflicts")]
    Unmerged(Vec<PathBuf>),
    /// Both sides changed the same lines in different ways.
    #[error("its changes conflict with commits made since it started")]
    Conflicts(Vec<PathBuf>),
    /// Files to be overwritten have uncommitted changes.
    #[error("files it would overwrite have uncommitted changes")]
    Uncommitted(Vec<PathBuf>),
    /// Files were saved after they had been compared.
    #[error("files it would overwrite were saved meanwhile")]
    Saved(Vec<PathBuf>),
    /// Nested repositories, which are not applied.
    #[error("nested git repositories cannot be applied")]
    Repositories(Vec<PathBuf>),
}

impl ApplyRefusal {
    /// Returns the affected files.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            ApplyRefusal::NoCheckout(_) => &[],
            ApplyRefusal::Unmerged(files)
            | ApplyRefusal::Conflicts(files)
            | ApplyRefusal::Uncommitted(files)
            | ApplyRefusal::Saved(files)
            | ApplyRefusal::Repositories(files) => files,
        }
    }
}

/// How to list the differences between two trees file by file, without detecting renames.
const FILES: [&str; 4] = ["--raw", "--numstat", "-z", "--no-renames"];

impl<'a> Plan<'a> {
    /// Merges the changes with the checkout at `top` and works out which files to write. Changes nothing.
    pub fn make(view: &'a View, git: &Git, top: &Path) -> Result<Result<Plan<'a>, ApplyRefusal>, Error> {
        let git_dir = match git_dir(view, git, top)? {
            Ok(git_dir) => git_dir,
            Err(why) => return Ok(Err(ApplyRefusal::NoCheckout(why))),
        };
        let lock = lock_checkout(&git_dir)?;
        let changes = view.compare(&FILES, &view.base, &view.tree)?;
        let nested: Vec<PathBuf> = paths(changes.iter().filter(|file| file.is_repository));
        if !nested.is_empty() {
            return Ok(Err(ApplyRefusal::Repositories(nested)));
        }
        let unmerged = listed(view.repository.call().env("GIT_DIR", &git_dir), "--unmerged")?;
        if !unmerged.is_empty() {
            return Ok(Err(ApplyRefusal::Unmerged(unmerged)));
        }
        let mut head = view.repository.call();
        let head = head.env("GIT_DIR", &git_dir).args(["rev-parse", "--verify", "HEAD^{commit}"]).line()?;
        let merged = match merge(view, &head)? {
            Ok(merged) => merged,
            Err(files) => return Ok(Err(ApplyRefusal::Conflicts(files))),
        };
        let changed = view.compare(&FILES, &head, &merged)?;
        let (write, remove) = (Vec::new(), Vec::new());
        let seen = changed.iter().map(|file| (file.path.clone(), Seen::at(&top.join(&file.path)))).collect();
        let mut plan = Plan { view, top: top.to_owned(), git_dir, head, seen, write, remove, _lock: lock };
        let blocked = plan.blocked(&changed);
        if !blocked.is_empty() {
            return Ok(Err(ApplyRefusal::Uncommitted(blocked)));
        }
        let on_disk = plan.checked_out(&changed)?;
        let edited: BTreeSet<PathBuf> =
            view.compare(&FILES, &plan.head, &on_disk)?.into_iter().map(|file| file.path).collect();
        let missing: BTreeSet<PathBuf> =
            view.compare(&FILES, &on_disk, &merged)?.into_iter().map(|file| file.path).collect();
        let lost: Vec<PathBuf> = edited.intersection(&missing).cloned().collect();
        if !lost.is_empty() {
            return Ok(Err(ApplyRefusal::Uncommitted(lost)));
        }
        for file in changed.into_iter().filter(|file| missing.contains(&file.path)) {
            match file.kind {
                Kind::Deleted => plan.remove.push(file.path),
                _ => plan.write.push(file.path),
            }
        }
        Ok(Ok(plan))
    }

    /// Returns the number of files to change; 0 if everything is already applied.
    pub fn count(&self) -> usize {
        self.write.len() + self.remove.len()
    }

    /// Changes the files. On failure, or if one of them was saved since it was compared, restores those already changed.
    pub fn apply(&self) -> Result<Result<(), ApplyRefusal>, Error> {
        let mut swaps = Swaps::new(&self.top, &self.git_dir, &self.seen)?;
        let trouble = match self.change(&mut swaps) {
            Ok(()) => return Ok(Ok(())),
            Err(trouble) => trouble,
        };
        if let Some(folder) = swaps.undo() {
            let what = format!("not every file of {} could be put back", self.top.display());
            let source = std::io::Error::other(format!("what is missing is in {}", folder.display()));
            return Err(Error::Disk { what, source });
        }
        match trouble {
            Trouble::Saved(files) => Ok(Err(ApplyRefusal::Saved(files))),
            Trouble::Failed(error) => Err(error),
        }
    }

    /// Records that this snapshot was applied.
    pub fn mark_applied(&self, place: &Path, id: &str) -> Result<(), Error> {
        record::mark_applied(place, id, &self.view.tree)
    }

    fn change(&self, swaps: &mut Swaps<'_>) -> Result<(), Trouble> {
        self.write_drafts(&swaps.drafts()).map_err(Trouble::Failed)?;
        for path in &self.remove {
            swaps.take(path)?;
        }
        swaps.tidy();
        // A folder that is still there holds files unknown to git.
        if let Some(path) = self.write.iter().find(|path| self.is_folder(path)) {
            if self.seen.get(path).is_some_and(Option::is_some) {
                return Err(Trouble::Saved(vec![path.clone()]));
            }
            let source = std::io::ErrorKind::IsADirectory.into();
            let what = format!("{} is in the way", self.top.join(path).display());
            return Err(Trouble::Failed(Error::Disk { what, source }));
        }
        for path in &self.write {
            swaps.put(path)?;
        }
        match swaps.saved() {
            saved if saved.is_empty() => Ok(()),
            saved => Err(Trouble::Saved(saved)),
        }
    }

    /// Writes the merged files to a folder.
    fn write_drafts(&self, folder: &Path) -> Result<(), Error> {
        if self.write.is_empty() {
            return Ok(());
        }
        let mut prefix = OsString::from("--prefix=");
        prefix.push(folder.join(""));
        let mut call = self.call("merged");
        call.args(["checkout-index", "--quiet", "-z", "--stdin"])
            .arg(prefix)
            .input(nul_terminated(&self.write));
        call.stdout().map(drop)
    }

    /// Returns files that cannot be written to their path, because a parent is a symbolic link or a file that stays, or because the path
    /// itself is a folder.
    fn blocked(&self, changed: &[FileChange]) -> Vec<PathBuf> {
        let goes: BTreeSet<&Path> = changed
            .iter()
            .filter(|file| file.kind == Kind::Deleted)
            .map(|file| file.path.as_path())
            .collect();
        let is_in_the_way = |folder: &Path, kind: Kind| match std::fs::symlink_metadata(self.top.join(folder))
        {
            // The files below that folder are gone already.
            Ok(found) if found.is_file() && kind == Kind::Deleted => false,
            Ok(found) => !found.is_dir() && !goes.contains(folder),
            Err(_) => false,
        };
        let blocked =
            changed.iter().filter(|file| parents(&file.path).any(|folder| is_in_the_way(folder, file.kind)));
        paths(blocked)
    }

    /// Writes a tree of the checkout: the committed files, with the affected ones as they are on disk.
    fn checked_out(&self, changed: &[FileChange]) -> Result<String, Error> {
        self.call("on_disk").args(["read-tree", &self.head]).stdout()?;
        let files = paths(changed.iter().filter(|file| !self.is_folder(&file.path)));
        let mut call = self.call("on_disk");
        // A file may have become a folder, or a folder a file.
        call.args(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"])
            .input(nul_terminated(&files));
        call.stdout()?;
        self.call("on_disk").arg("write-tree").line()
    }

    fn is_folder(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.top.join(path)).is_ok_and(|found| found.is_dir())
    }

    /// Prepares an invocation on the files of the checkout, with a private index.
    fn call(&self, index: &str) -> Invocation<'_> {
        let mut call = self.view.scratch.call(&self.view.repository, index);
        call.in_folder(&self.top).env("GIT_WORK_TREE", &self.top);
        call
    }
}

/// Locks a checkout against other applies, waiting if needed. The lock is on its git directory and leaves no file behind.
fn lock_checkout(git_dir: &Path) -> Result<File, Error> {
    let failed = |source| Error::Disk { what: format!("cannot lock {}", git_dir.display()), source };
    let lock = File::open(git_dir).map_err(failed)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed(error.into()))?;
    Ok(lock)
}

/// Returns the checkout's git directory, or why it is not a checkout of the view's repository.
fn git_dir(view: &View, git: &Git, top: &Path) -> Result<Result<PathBuf, String>, Error> {
    if !top.is_dir() {
        return Ok(Err(format!("the checkout {} is gone", top.display())));
    }
    let mut call = git.call(top);
    let asked = call
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir", "--absolute-git-dir"])
        .output()?;
    if !asked.status.success() {
        return Ok(Err(format!("{} is not a checkout any more: {}", top.display(), stderr_line(&asked))));
    }
    let mut lines = asked.stdout.split(|byte| *byte == b'\n');
    let mut next = || PathBuf::from(OsString::from_vec(lines.next().unwrap_or_default().to_vec()));
    let (common, git_dir) = (next(), next());
    Ok(match common == view.repository.dir {
        true => Ok(git_dir),
        false => Err(format!("{} is now a checkout of another repository", top.display())),
    })
}

/// Merges the changes with a commit in the index `merged`; returns the tree, or the conflicting files.
fn merge(view: &View, head: &str) -> Result<Result<String, Vec<PathBuf>>, Error> {
    view.scratch.call(&view.repository, "merged").args(["read-tree", head]).stdout()?;
    drop(view.write_diff(&["--unified=3", "--binary", "--full-index", "--no-renames"])?);
    let patch = view.scratch.file("diff");
    if std::fs::metadata(&patch).is_ok_and(|found| found.len() > 0) {
        let mut call = view.scratch.call(&view.repository, "merged");
        let applied =
            call.args(["apply", "--cached", "--3way", "--whitespace=nowarn"]).arg(&patch).output()?;
        if !applied.status.success() {
            let mut files = listed(&mut view.scratch.call(&view.repository, "merged"), "--unmerged")?;
            if files.is_empty() {
                files = unmergeable(&applied.stderr);
            }
            return Ok(Err(files));
        }
    }
    Ok(Ok(view.scratch.call(&view.repository, "merged").arg("write-tree").line()?))
}

/// Returns the files git names in errors of the form `error: path: reason`, when it could not even try to merge.
fn unmergeable(stderr_line: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(stderr_line);
    let lines = text.lines().filter_map(|line| line.strip_prefix("error: ")?.rsplit_once(": "));
    let named: BTreeSet<PathBuf> =
        lines.map(|(path, _)| path.strip_prefix("patch failed: ").unwrap_or(path).into()).collect();
    named.into_iter().collect()
}

/// Lists the paths of an index that match an option of `ls-files`.
fn listed(call: &mut Invocation<'_>, what: &str) -> Result<Vec<PathBuf>, Error> {
    let output = call.args(["ls-files", "-z", what]).stdout()?;
    // Format: `mode object stage\tpath`
    let path = |entry: &[u8]| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        Some(PathBuf::from(OsString::from_vec(entry[tab + 1..].to_vec())))
    };
    let found: BTreeSet<PathBuf> = output.split(|byte| *byte == 0).filter_map(path).collect();
    Ok(found.into_iter().collect())
}

fn paths<'a>(files: impl Iterator<Item = &'a FileChange>) -> Vec<PathBuf> {
    files.map(|file| file.path.clone()).collect()
}
