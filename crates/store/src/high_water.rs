//! A small file outside the database that remembers how far a journal had come, so that an older copy in its place is noticed when it is
//! opened.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Its name. Unlike those of SQLite's files, so that what deletes these leaves it.
const NAME: &str = "high-water";

/// The digits of a place in it.
const DIGITS: usize = 20;

/// The longest name of a journal and of a run of its server in it.
const NAMES_MAX: u64 = 300;

/// How far a journal had come once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The place of the newest event that it had.
    pub had: u64,
    /// The place of the newest event that it has.
    pub has: u64,
}

/// What the file said when it was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The place of the newest event.
    pub(crate) newest: u64,
    /// Which journal it was in; empty where the file lies beside the journal.
    pub(crate) journal: String,
    /// In which run of its server; empty where there is none.
    pub(crate) run: String,
}

/// The open file. Without one, nothing is remembered, and only what happens while the journal is open is noticed.
pub(crate) struct HighWater {
    file: Option<File>,
    journal: String,
    run: String,
    newest: u64,
}

impl HighWater {
    /// Opens the file of a folder, and returns what it says.
    pub(crate) fn open(folder: &Path) -> (HighWater, Remembered) {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(folder.join(NAME)).ok();
        let remembered = file.as_ref().and_then(read).unwrap_or_default();
        (HighWater { file, ..HighWater::none() }, remembered)
    }

    /// Remembers nothing.
    pub(crate) fn none() -> HighWater {
        HighWater { file: None, journal: String::new(), run: String::new(), newest: 0 }
    }

    /// Names the journal that it remembers from now on.
    pub(crate) fn of(self, journal: &str) -> HighWater {
        HighWater { journal: journal.to_owned(), ..self }
    }

    /// Names another journal, of which nothing is known yet.
    pub(crate) fn rename(&mut self, journal: &str) {
        self.journal = journal.to_owned();
        self.newest = 0;
    }

    /// Names the run of the server in which the journal comes further from now on.
    pub(crate) fn in_run(&mut self, run: &str) {
        self.run = run.to_owned();
    }

    /// Remembers how far the journal has come. Not flushed: after a power cut it may remember less.
    pub(crate) fn note(&mut self, newest: u64) {
        if newest == self.newest {
            return;
        }
        self.newest = newest;
        if let Some(file) = &self.file {
            // If that fails, it remembers less.
            let _ = file
                .write_all_at(format!("{newest:0DIGITS$}\n{}\n{}\n", self.journal, self.run).as_bytes(), 0);
        }
    }
}

fn read(file: &File) -> Option<Remembered> {
    let mut text = String::new();
    file.take(DIGITS as u64 + NAMES_MAX).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let newest = lines.next()?.parse().ok()?;
    let mut name = || lines.next().unwrap_or_default().to_owned();
    Some(Remembered { newest, journal: name(), run: name() })
}
