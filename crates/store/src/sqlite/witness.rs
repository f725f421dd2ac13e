//! Notices that the files of the journal were deleted, replaced or rolled back, before anything more is acknowledged.
//!
//! While the journal is open, its files must stay the ones that were opened: SQLite itself would write on into a file that has no name any
//! more. What was done to it before it was opened shows in `high_water`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::high_water::HighWater;
use crate::{Behind, Error, Result};

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
    high_water: HighWater,
}

impl Witness {
    /// Begins to watch a journal that has come to `newest`, and returns whether it had been further.
    pub(super) fn begin(file: &Path, newest: u64) -> Result<(Witness, Option<Behind>)> {
        let gone = |path: &Path| Error::Unavailable(format!("{} cannot be found", path.display()));
        let log = file.with_extension("db-wal");
        let ids = ids_of(file, &log).ok_or_else(|| gone(file))?;
        let (high_water, remembered) = HighWater::open(file.parent().unwrap_or(Path::new(".")));
        let behind = (remembered.newest > newest).then_some(Behind { had: remembered.newest, has: newest });
        let witness = Witness { file: file.to_owned(), log, ids, high_water };
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

    /// Remembers how far the journal has come.
    pub(super) fn note(&mut self, newest: u64) {
        self.high_water.note(newest);
    }
}

/// Identifies the journal and its log; `None` if one is not there, or the journal is empty.
fn ids_of(file: &Path, log: &Path) -> Option<[FileId; 2]> {
    let file = fs::metadata(file).ok().filter(|file| file.len() > 0)?;
    let log = fs::metadata(log).ok()?;
    Some([(file.dev(), file.ino()), (log.dev(), log.ino())])
}
