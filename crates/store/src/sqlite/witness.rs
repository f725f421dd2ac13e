//! Notices that the files of the journal were deleted, replaced or rolled back, before anything more is acknowledged.
//!
//! While the journal is open, its files must stay the ones that were opened: SQLite itself would write on into a file that has no name any
//! more. A small file beside the journal remembers how far it had come, so that an older copy in its place is noticed when it is opened.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// The name of the file that remembers. Unlike those of SQLite's files, so that what deletes these leaves it.
const HIGH_WATER: &str = "high-water";

/// The digits of a place in it.
const DIGITS: usize = 20;

/// What identifies a file as long as it exists.
type FileId = (u64, u64);

/// Whether the last commit went into a file without a name. What is in a log then is not stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Void(Arc<AtomicBool>);

impl Void {
    pub(super) fn set(&self, is_void: bool) {
        self.0.store(is_void, Ordering::Release);
    }

    /// Fails while it is so.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            true => Err(Error::Unavailable("it was deleted or replaced while it was written".to_owned())),
            false => Ok(()),
        }
    }
}

/// The files of an open journal, and the file that remembers how far it has come.
pub(super) struct Witness {
    file: PathBuf,
    log: PathBuf,
    ids: [FileId; 2],
    seen: Option<File>,
    newest: u64,
}

/// How far a journal had come once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The place of the newest event that it had.
    pub had: u64,
    /// The place of the newest event that it has.
    pub has: u64,
}

impl Witness {
    /// Begins to watch a journal that has come to `newest`, and returns whether it had been further.
    pub(super) fn begin(file: &Path, newest: u64) -> Result<(Witness, Option<Behind>)> {
        let gone = |path: &Path| Error::Unavailable(format!("{} cannot be found", path.display()));
        let log = file.with_extension("db-wal");
        let ids = ids_of(file, &log).ok_or_else(|| gone(file))?;
        // Without it, only what happens while the journal is open is noticed.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let seen = options.open(file.with_file_name(HIGH_WATER)).ok();
        let had = seen.as_ref().and_then(read).unwrap_or(0);
        let witness = Witness { file: file.to_owned(), log, ids, seen, newest: 0 };
        let behind = (had > newest).then_some(Behind { had, has: newest });
        Ok((witness, behind))
    }

    /// Fails unless the files are still the ones that were opened. Asked before a commit and before its answers.
    pub(super) fn check(&self) -> Result<()> {
        if ids_of(&self.file, &self.log) == Some(self.ids) {
            return Ok(());
        }
        Err(Error::Unavailable(format!(
            "{} was deleted or replaced while it was in use: put it back, or restart the daemon to use what is there now",
            self.file.display()
        )))
    }

    /// Remembers how far the journal has come. Not flushed: after a power cut it may remember less.
    pub(super) fn note(&mut self, newest: u64) {
        if newest == self.newest {
            return;
        }
        self.newest = newest;
        if let Some(seen) = &self.seen {
            // If that fails, it remembers less.
            let _ = seen.write_all_at(format!("{newest:0DIGITS$}\n").as_bytes(), 0);
        }
    }
}

/// Identifies the journal and its log; `None` if one is not there, or the journal is empty.
fn ids_of(file: &Path, log: &Path) -> Option<[FileId; 2]> {
    let file = fs::metadata(file).ok().filter(|file| file.len() > 0)?;
    let log = fs::metadata(log).ok()?;
    Some([(file.dev(), file.ino()), (log.dev(), log.ino())])
}

fn read(seen: &File) -> Option<u64> {
    let mut text = String::new();
    seen.take(DIGITS as u64).read_to_string(&mut text).ok()?;
    text.parse().ok()
}
