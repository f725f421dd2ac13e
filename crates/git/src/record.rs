//! The record of a worktree: a file beside it that is written before the worktree is created and removed after the worktree is gone.
//! Whatever a crash leaves behind has a record that says how to continue.
//!
//! ```text
//! worktrees/<id>           the worktree
//! worktrees/<id>.json      its record
//! worktrees/<id>.applied   the tree that was applied last
//! worktrees/<id>.lock      its lock
//! ```

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The contents of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The common git directory of the repository.
    pub(crate) git_dir: PathBuf,
    /// The commit the worktree started from.
    pub(crate) base: String,
    /// Its branch, without `refs/heads/`.
    pub(crate) branch: String,
    /// How far creation or removal has got.
    pub(crate) stage: Stage,
}

/// How far the creation or removal of a worktree has got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// Being created; may be incomplete.
    Making,
    /// Complete.
    Made,
    /// Being removed; may be incomplete.
    Removing {
        /// The commit its branch pointed to when removal was decided. A branch that has moved since is kept.
        tip: Option<String>,
    },
}

/// Returns the path of a record.
fn path(place: &Path, id: &str) -> PathBuf {
    place.join(format!("{id}.json"))
}

fn applied_path(place: &Path, id: &str) -> PathBuf {
    place.join(format!("{id}.applied"))
}

impl Record {
    /// Reads the record of a worktree; `None` if there is none.
    pub(crate) fn read(place: &Path, id: &str) -> Result<Option<Record>, Error> {
        let path = path(place, id);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::disk(format!("cannot read {}", path.display())))?,
        };
        let read = serde_json::from_slice(&text).map_err(io::Error::from);
        read.map(Some).map_err(Error::disk(format!("cannot parse {}", path.display())))
    }

    /// Writes the record durably. Only then may the step it announces begin.
    pub(crate) fn write(&self, place: &Path, id: &str) -> Result<(), Error> {
        let text = serde_json::to_vec(self).map_err(io::Error::from);
        let written = text.and_then(|text| publish(&path(place, id), &text));
        written.map_err(Error::disk(format!("cannot write the record of {}", place.join(id).display())))
    }

    /// Removes the record. It is the last trace of a worktree.
    pub(crate) fn remove(place: &Path, id: &str) -> Result<(), Error> {
        for path in [applied_path(place, id), path(place, id)] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Disk {
                        what: format!("cannot remove {}", path.display()),
                        source: error,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the ids of all worktrees that have a record.
    pub(crate) fn all(place: &Path) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(Error::disk(format!("cannot list {}", place.display())))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect())
    }
}

/// Records the tree that was applied to a checkout.
pub(crate) fn mark_applied(place: &Path, id: &str, tree: &str) -> Result<(), Error> {
    let path = applied_path(place, id);
    publish(&path, tree.as_bytes()).map_err(Error::disk(format!("cannot write {}", path.display())))
}

/// Returns the tree that was applied last.
pub(crate) fn applied(place: &Path, id: &str) -> Option<String> {
    std::fs::read_to_string(applied_path(place, id)).ok()
}

/// Replaces a file atomically and durably.
fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&draft, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips_and_its_stored_spelling_is_fixed() {
        let place = tempfile::tempdir().unwrap();
        let record = |stage| Record {
            git_dir: "/src/.git".into(),
            base: "abc".to_owned(),
            branch: "lastword/x".to_owned(),
            stage,
        };
        let stored = |stage: &str| {
            format!(r#"{{"git_dir":"/src/.git","base":"abc","branch":"lastword/x","stage":{stage}}}"#)
        };
        for (stage, words) in [
            (Stage::Making, r#""making""#),
            (Stage::Made, r#""made""#),
            (Stage::Removing { tip: Some("def".to_owned()) }, r#"{"removing":{"tip":"def"}}"#),
        ] {
            record(stage.clone()).write(place.path(), "job").unwrap();
            assert_eq!(Record::read(place.path(), "job").unwrap(), Some(record(stage)));
            assert_eq!(std::fs::read_to_string(place.path().join("job.json")).unwrap(), stored(words));
        }
        assert_eq!(Record::all(place.path()).unwrap(), ["job"]);
        Record::remove(place.path(), "job").unwrap();
        assert_eq!(Record::read(place.path(), "job").unwrap(), None);
    }

    #[test]
    fn an_unparsable_record_is_an_error_not_a_missing_record() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("job.json"), "{").unwrap();
        assert!(Record::read(place.path(), "job").is_err());
    }
}
