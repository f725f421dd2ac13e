//! The changes of a worktree, brought to a checkout: all of them, or none.
//!
//! They are merged three ways, with what is checked out, in an index of our own. Only then the files are looked at that would change:
//! each is as it is committed, and is written; or is already as it would be; or else nothing is done. So asking twice changes
//! nothing the second time, and what a crash left half done is done the next time. Neither index nor branch is touched. One at a time does
//! that in a checkout: two would take each other's files for work of the user, and undo it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::run::{Call, complaint};
use crate::view::{above, lines};
use crate::{Error, FileChange, Git, Kind, View, record};

/// What is to be done to a checkout.
#[derive(Debug)]
pub struct Plan<'a> {
    view: &'a View,
    top: PathBuf,
    head: String,
    /// Files that come to be, or change.
    write: Vec<PathBuf>,
    /// Files that go.
    remove: Vec<PathBuf>,
    /// Nobody else brings anything to this checkout meanwhile.
    _turn: File,
}

/// Why nothing is done to a checkout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It is not there, or is one of another repository.
    #[error("{0}")]
    NoCheckout(String),
    /// A merge in it is not done.
    #[error("the checkout has conflicts that are not resolved")]
    Unmerged(Vec<PathBuf>),
    /// The same was changed on both sides, in different ways.
    #[error("its changes and those that were committed since do not fit together")]
    Conflicts(Vec<PathBuf>),
    /// Files that would change hold work that is not committed.
    #[error("files that would change hold work that is not committed")]
    Uncommitted(Vec<PathBuf>),
    /// Repositories within the repository are not brought over.
    #[error("repositories within the repository are not brought over")]
    Repositories(Vec<PathBuf>),
}

impl Trouble {
    /// Returns the files it is about.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            Trouble::NoCheckout(_) => &[],
            Trouble::Unmerged(files)
            | Trouble::Conflicts(files)
            | Trouble::Uncommitted(files)
            | Trouble::Repositories(files) => files,
        }
    }
}

/// How two trees are listed where each file counts for itself.
const FILES: [&str; 4] = ["--raw", "--numstat", "-z", "--no-renames"];

impl<'a> Plan<'a> {
    /// Finds out what would have to be done to the checkout at `top`. Nothing is changed by that.
    pub fn make(view: &'a View, git: &Git, top: &Path) -> Result<Result<Plan<'a>, Trouble>, Error> {
        let own = match own_dir(view, git, top)? {
            Ok(own) => own,
            Err(why) => return Ok(Err(Trouble::NoCheckout(why))),
        };
        let turn = turn(&own)?;
        let changes = view.compare(&FILES, &view.base, &view.tree)?;
        let nested: Vec<PathBuf> = paths(changes.iter().filter(|file| file.is_repository));
        if !nested.is_empty() {
            return Ok(Err(Trouble::Repositories(nested)));
        }
        let unmerged = listed(view.repository.call().env("GIT_DIR", &own), "--unmerged")?;
        if !unmerged.is_empty() {
            return Ok(Err(Trouble::Unmerged(unmerged)));
        }
        let mut head = view.repository.call();
        let head = head.env("GIT_DIR", &own).words(["rev-parse", "--verify", "HEAD^{commit}"]).line()?;
        let merged = match merge(view, &head)? {
            Ok(merged) => merged,
            Err(files) => return Ok(Err(Trouble::Conflicts(files))),
        };
        let wanted = view.compare(&FILES, &head, &merged)?;
        let (write, remove) = (Vec::new(), Vec::new());
        let mut plan = Plan { view, top: top.to_owned(), head, write, remove, _turn: turn };
        let blocked = plan.blocked(&wanted);
        if !blocked.is_empty() {
            return Ok(Err(Trouble::Uncommitted(blocked)));
        }
        let mine = plan.checked_out(&wanted)?;
        let changed: BTreeSet<PathBuf> =
            view.compare(&FILES, &plan.head, &mine)?.into_iter().map(|file| file.path).collect();
        let missing: BTreeSet<PathBuf> =
            view.compare(&FILES, &mine, &merged)?.into_iter().map(|file| file.path).collect();
        let lost: Vec<PathBuf> = changed.intersection(&missing).cloned().collect();
        if !lost.is_empty() {
            return Ok(Err(Trouble::Uncommitted(lost)));
        }
        for file in wanted.into_iter().filter(|file| missing.contains(&file.path)) {
            match file.kind {
                Kind::Deleted => plan.remove.push(file.path),
                _ => plan.write.push(file.path),
            }
        }
        Ok(Ok(plan))
    }

    /// Returns how many files are to be changed; none, if all is as it would be.
    pub fn count(&self) -> usize {
        self.write.len() + self.remove.len()
    }

    /// Does it. If anything fails, what was done is undone.
    pub fn carry_out(&self) -> Result<(), Error> {
        self.change().inspect_err(|_| self.undo())
    }

    /// Notes that what was looked at is in a checkout now.
    pub fn note(&self, place: &Path, id: &str) -> Result<(), Error> {
        record::note_applied(place, id, &self.view.tree)
    }

    fn change(&self) -> Result<(), Error> {
        for path in &self.remove {
            self.remove(path)?;
        }
        // A folder that is in the way holds something that nobody knows of.
        if let Some(path) = self.write.iter().find(|path| self.is_folder(path)) {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(Error::Disk {
                what: format!("{} is in the way", self.top.join(path).display()),
                source,
            });
        }
        self.put(&self.write, "merged")
    }

    fn undo(&self) {
        // As far as it goes: each of them was as it is committed.
        let read = self.call("head").words(["read-tree", &self.head]).get();
        let committed = match read.and_then(|_| listed(&mut self.call("head"), "--stage")) {
            Ok(files) => BTreeSet::from_iter(files),
            Err(_) => return,
        };
        let (back, new): (Vec<PathBuf>, Vec<PathBuf>) =
            self.write.iter().chain(&self.remove).cloned().partition(|path| committed.contains(path));
        for path in new {
            let _ = self.remove(&path);
        }
        let _ = self.put(&back, "head");
    }

    /// Has git write files as an index has them.
    fn put(&self, files: &[PathBuf], index: &str) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        let mut call = self.call(index);
        call.words(["checkout-index", "--force", "--quiet", "-z", "--stdin"]).input(lines(files));
        call.get().map(drop)
    }

    /// Removes a file, and the folders that are empty then.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        match std::fs::remove_file(self.top.join(path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("cannot remove {}", self.top.join(path).display());
                return Err(Error::Disk { what, source: error });
            }
            _ => {}
        }
        for folder in above(path) {
            if std::fs::remove_dir(self.top.join(folder)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns those files that cannot be where they would have to be: a folder of theirs is a link or a file that stays, or they are
    /// a folder themselves.
    fn blocked(&self, wanted: &[FileChange]) -> Vec<PathBuf> {
        let goes: BTreeSet<&Path> =
            wanted.iter().filter(|file| file.kind == Kind::Deleted).map(|file| file.path.as_path()).collect();
        let is_in_the_way = |folder: &Path, kind: Kind| match std::fs::symlink_metadata(self.top.join(folder))
        {
            // What was below it is gone already.
            Ok(found) if found.is_file() && kind == Kind::Deleted => false,
            Ok(found) => !found.is_dir() && !goes.contains(folder),
            Err(_) => false,
        };
        let blocked =
            wanted.iter().filter(|file| above(&file.path).any(|folder| is_in_the_way(folder, file.kind)));
        paths(blocked)
    }

    /// Makes a tree of what is checked out, with the files in question as they are on disk.
    fn checked_out(&self, wanted: &[FileChange]) -> Result<String, Error> {
        self.call("mine").words(["read-tree", &self.head]).get()?;
        let files = paths(wanted.iter().filter(|file| !self.is_folder(&file.path)));
        let mut call = self.call("mine");
        // A file may have become a folder, and the other way round.
        call.words(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]).input(lines(&files));
        call.get()?;
        self.call("mine").word("write-tree").line()
    }

    fn is_folder(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.top.join(path)).is_ok_and(|found| found.is_dir())
    }

    /// Returns a call about the files of the checkout, by an index of our own.
    fn call(&self, index: &str) -> Call<'_> {
        let mut call = self.view.scratch.call(&self.view.repository, index);
        call.in_folder(&self.top).env("GIT_WORK_TREE", &self.top);
        call
    }
}

/// Waits until nobody else brings anything to a checkout. The lock is on its own folder of git, and leaves nothing there.
fn turn(own: &Path) -> Result<File, Error> {
    let failed = |source| Error::Disk { what: format!("cannot lock {}", own.display()), source };
    let turn = File::open(own).map_err(failed)?;
    rustix::fs::flock(&turn, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed(error.into()))?;
    Ok(turn)
}

/// Returns the checkout's own folder of git, or why it is none of the repository.
fn own_dir(view: &View, git: &Git, top: &Path) -> Result<Result<PathBuf, String>, Error> {
    if !top.is_dir() {
        return Ok(Err(format!("the checkout {} is gone", top.display())));
    }
    let mut call = git.call(top);
    let asked = call
        .words(["rev-parse", "--path-format=absolute", "--git-common-dir", "--absolute-git-dir"])
        .ask()?;
    if !asked.status.success() {
        return Ok(Err(format!("{} is no checkout any more: {}", top.display(), complaint(&asked))));
    }
    let mut lines = asked.stdout.split(|byte| *byte == b'\n');
    let mut next = || PathBuf::from(OsString::from_vec(lines.next().unwrap_or_default().to_vec()));
    let (common, own) = (next(), next());
    Ok(match common == view.repository.dir {
        true => Ok(own),
        false => Err(format!("{} is a checkout of another repository now", top.display())),
    })
}

/// Merges the changes with a commit, in the index `merged`; returns the tree, or the files that do not fit.
fn merge(view: &View, head: &str) -> Result<Result<String, Vec<PathBuf>>, Error> {
    view.scratch.call(&view.repository, "merged").words(["read-tree", head]).get()?;
    drop(view.written(&["--unified=3", "--binary", "--full-index", "--no-renames"])?);
    let patch = view.scratch.file("diff");
    if std::fs::metadata(&patch).is_ok_and(|found| found.len() > 0) {
        let mut call = view.scratch.call(&view.repository, "merged");
        let applied =
            call.words(["apply", "--cached", "--3way", "--whitespace=nowarn"]).word(&patch).ask()?;
        if !applied.status.success() {
            let mut files = listed(&mut view.scratch.call(&view.repository, "merged"), "--unmerged")?;
            if files.is_empty() {
                files = unfit(&applied.stderr);
            }
            return Ok(Err(files));
        }
    }
    Ok(Ok(view.scratch.call(&view.repository, "merged").word("write-tree").line()?))
}

/// Returns the files that git names where it cannot even try to merge: `error: path: why`.
fn unfit(complaint: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(complaint);
    let lines = text.lines().filter_map(|line| line.strip_prefix("error: ")?.rsplit_once(": "));
    let named: BTreeSet<PathBuf> =
        lines.map(|(path, _)| path.strip_prefix("patch failed: ").unwrap_or(path).into()).collect();
    named.into_iter().collect()
}

/// Returns the paths of an index that have something about them.
fn listed(call: &mut Call<'_>, what: &str) -> Result<Vec<PathBuf>, Error> {
    let said = call.words(["ls-files", "-z", what]).get()?;
    // `mode object stage\tpath`
    let path = |entry: &[u8]| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        Some(PathBuf::from(OsString::from_vec(entry[tab + 1..].to_vec())))
    };
    let found: BTreeSet<PathBuf> = said.split(|byte| *byte == 0).filter_map(path).collect();
    Ok(found.into_iter().collect())
}

fn paths<'a>(files: impl Iterator<Item = &'a FileChange>) -> Vec<PathBuf> {
    files.map(|file| file.path.clone()).collect()
}
