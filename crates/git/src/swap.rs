//! Changes files of a checkout without losing what is saved there meanwhile.
//!
//! Each file has a slot in a folder beside the checkout. One step exchanges slot and file, so that the file is never missing or half written.
//! What is in the slot then is compared with what was seen before: if it differs, it was saved meanwhile. Exchanging once more puts it back.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::Error;
use crate::view::parents;

/// A folder that is removed on drop, unless it is kept.
#[derive(Debug)]
struct Stage(PathBuf);

impl Stage {
    fn new(place: &Path) -> io::Result<Stage> {
        // A killed process may have had the same id.
        let names = (0..).map(|n: u32| place.join(format!(".lastword-apply-{}-{n}", std::process::id())));
        for folder in names {
            match std::fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Stage(folder)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// What tells a file from one that was written since. A rename changes none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    inode: (u64, u64),
    mode: u32,
    size: u64,
    modified: (i64, i64),
}

impl Seen {
    /// Looks at a file; `None` if there is none. A folder is none.
    pub(crate) fn at(path: &Path) -> Option<Seen> {
        let found = std::fs::symlink_metadata(path).ok()?;
        (!found.is_dir()).then(|| Seen::of(&found))
    }

    fn of(found: &Metadata) -> Seen {
        Seen {
            inode: (found.dev(), found.ino()),
            mode: found.mode(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

/// Why a file was not changed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// These files were saved meanwhile.
    Saved(Vec<PathBuf>),
    /// It failed.
    Failed(Error),
}

/// Files that were exchanged with their slots.
#[derive(Debug)]
pub(crate) struct Swaps<'a> {
    top: &'a Path,
    /// The folder of the slots.
    stage: Stage,
    /// What was seen of the checkout's files before.
    seen: &'a BTreeMap<PathBuf, Option<Seen>>,
    done: Vec<Swap>,
}

#[derive(Debug)]
struct Swap {
    path: PathBuf,
    slot: PathBuf,
    /// What it has put in place.
    placed: Option<Seen>,
    /// What must be in the slot.
    displaced: Option<Seen>,
}

impl Swap {
    /// Reports whether the displaced file was saved after it had been seen.
    fn is_saved(&self) -> bool {
        Seen::at(&self.slot) != self.displaced
    }
}

impl<'a> Swaps<'a> {
    /// Prepares a folder for slots, in the git directory of the checkout if that is on the same file system. A crash leaves it behind, with
    /// the files that were displaced.
    pub(crate) fn new(
        top: &'a Path,
        git_dir: &Path,
        seen: &'a BTreeMap<PathBuf, Option<Seen>>,
    ) -> Result<Swaps<'a>, Error> {
        let device = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
        let place = if device(git_dir) == device(top) { git_dir } else { top };
        let stage = Stage::new(place);
        let what = format!("cannot create a folder in {}", place.display());
        Ok(Swaps { top, stage: stage.map_err(Error::disk(what))?, seen, done: Vec::new() })
    }

    /// Returns the folder for new files, to be written there before they are put in place.
    pub(crate) fn drafts(&self) -> PathBuf {
        self.stage.0.join("new")
    }

    /// Puts a file in place whose draft is written.
    pub(crate) fn put(&mut self, path: &Path) -> Result<(), Trouble> {
        let slot = self.drafts().join(path);
        self.swap(path, slot)
    }

    /// Takes a file away.
    pub(crate) fn take(&mut self, path: &Path) -> Result<(), Trouble> {
        let slot = self.stage.0.join("old").join(path);
        self.swap(path, slot)
    }

    fn swap(&mut self, path: &Path, slot: PathBuf) -> Result<(), Trouble> {
        let displaced = self.seen.get(path).copied().flatten();
        let swap = Swap { path: path.to_owned(), placed: Seen::at(&slot), slot, displaced };
        if swap.placed.is_none() && displaced.is_none() {
            return Ok(());
        }
        let failed = |error: io::Error| {
            Trouble::Failed(Error::Disk {
                what: format!("cannot change {}", self.top.join(path).display()),
                source: error,
            })
        };
        for file in [self.top.join(path), swap.slot.clone()] {
            std::fs::create_dir_all(file.parent().unwrap_or(self.top)).map_err(failed)?;
        }
        match exchange(&self.top.join(path), &swap.slot, (displaced.is_some(), swap.placed.is_some())) {
            // It came or went meanwhile.
            Err(Errno::NOENT | Errno::EXIST) => return Err(Trouble::Saved(vec![path.to_owned()])),
            other => other.map_err(|error| failed(error.into()))?,
        }
        let is_saved = swap.is_saved();
        self.done.push(swap);
        match is_saved {
            true => Err(Trouble::Saved(vec![path.to_owned()])),
            false => Ok(()),
        }
    }

    /// Returns the files that were saved meanwhile. The last look at all of them finds writers that had a file open when it was displaced.
    pub(crate) fn saved(&self) -> Vec<PathBuf> {
        let saved = self.done.iter().filter(|swap| swap.is_saved());
        saved.map(|swap| swap.path.clone()).collect()
    }

    /// Puts everything back, last one first, except for files that were saved after they had been put in place. If that fails, the files stay
    /// in the folder that is returned.
    pub(crate) fn undo(self) -> Option<PathBuf> {
        let mut is_back = true;
        for swap in self.done.iter().rev() {
            let file = self.top.join(&swap.path);
            let _ = std::fs::create_dir_all(file.parent().unwrap_or(self.top));
            is_back &= exchange(&file, &swap.slot, (swap.placed.is_some(), swap.displaced.is_some())).is_ok();
            if Seen::at(&swap.slot) != swap.placed {
                // The newest save counts. What was displaced may be an earlier one.
                is_back = false;
                let _ = exchange(&file, &swap.slot, (true, true));
            }
            remove_empty(self.top, &swap.path);
        }
        (!is_back).then(|| self.stage.keep())
    }

    /// Removes folders that became empty.
    pub(crate) fn tidy(&self) {
        for swap in self.done.iter().filter(|swap| swap.placed.is_none()) {
            remove_empty(self.top, &swap.path);
        }
    }
}

/// Removes the parent folders of a path that are empty.
fn remove_empty(top: &Path, path: &Path) {
    for folder in parents(path) {
        if std::fs::remove_dir(top.join(folder)).is_err() {
            break;
        }
    }
}

/// Exchanges two files, of which one may be missing. Fails with [`Errno::NOENT`] or [`Errno::EXIST`] if another one is.
fn exchange(file: &Path, slot: &Path, (is_there, has_slot): (bool, bool)) -> Result<(), Errno> {
    let (from, to, flags) = match (is_there, has_slot) {
        (true, true) => (slot, file, RenameFlags::EXCHANGE),
        (false, true) => (slot, file, RenameFlags::NOREPLACE),
        (true, false) => (file, slot, RenameFlags::NOREPLACE),
        (false, false) => return Ok(()),
    };
    match renameat_with(CWD, from, CWD, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => exchange_in_steps(from, to, flags),
        other => other,
    }
}

/// Does the same on a file system that cannot do it in one step. The file is missing for a moment.
fn exchange_in_steps(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    if flags == RenameFlags::NOREPLACE {
        if Seen::at(to).is_some() {
            return Err(Errno::EXIST);
        }
        return rustix::fs::rename(from, to);
    }
    let mut aside = from.as_os_str().to_owned();
    aside.push(".displaced");
    rustix::fs::rename(to, &aside)?;
    rustix::fs::rename(from, to)?;
    rustix::fs::rename(&aside, from)
}
