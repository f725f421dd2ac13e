//! The folders that a bench works in.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Makes folders, and removes them all at the end, not before: a file system is slow to reuse what was just removed, and the next measurement
/// would pay for it.
pub(super) struct Folders(TempDir);

impl Folders {
    /// Works in a folder of a chosen file system, which decides what a flush costs.
    pub(super) fn within(folder: &Path) -> Result<Folders, String> {
        TempDir::new_in(folder).map(Folders).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Makes an empty folder.
    pub(super) fn folder(&self) -> Result<PathBuf, String> {
        let folder = tempfile::Builder::new().tempdir_in(self.0.path());
        folder.map(TempDir::keep).map_err(|error| error.to_string())
    }
}
