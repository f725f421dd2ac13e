//! The record of a worktree: a file beside it, from before anything is made of it until all of it is gone. Whatever a crash leaves
//! has a record, and whoever finds that knows what to do.
//!
//! ```text
//! worktrees/<id>           the worktree
//! worktrees/<id>.json      its record
//! worktrees/<id>.applied   the tree that was last applied
//! ```

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The repository's own folder.
    pub(crate) git_dir: PathBuf,
    /// The commit at which it began.
    pub(crate) base: String,
    /// Its branch, without `refs/heads/`.
    pub(crate) branch: String,
    /// How far it is.
    pub(crate) stage: Stage,
}

/// How far a worktree is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// It may be half there.
    Making,
    /// It is there.
    Made,
    /// It is to go, and may be half gone.
    Removing {
        /// Where its branch stood when that was decided; one that has moved since stays.
        tip: Option<String>,
    },
}

/// Returns the path of the record.
fn path(place: &Path, id: &str) -> PathBuf {
    place.join(format!("{id}.json"))
}

fn applied_path(place: &Path, id: &str) -> PathBuf {
    place.join(format!("{id}.applied"))
}

impl Record {
    /// Reads the record of a worktree; `None` if it has none.
    pub(crate) fn read(place: &Path, id: &str) -> Result<Option<Record>, Error> {
        let path = path(place, id);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::disk(format!("cannot read {}", path.display())))?,
        };
        let read = serde_json::from_slice(&text).map_err(io::Error::from);
        read.map(Some).map_err(Error::disk(format!("{} does not read", path.display())))
    }

    /// Writes the record, durably: what it announces may be done after.
    pub(crate) fn write(&self, place: &Path, id: &str) -> Result<(), Error> {
        let text = serde_json::to_vec(self).map_err(io::Error::from);
        let written = text.and_then(|text| publish(&path(place, id), &text));
        written.map_err(Error::disk(format!("cannot write the record of {}", place.join(id).display())))
    }

    /// Removes the record, the last thing there is of a worktree.
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

    /// Returns the ids of everything that has a record.
    pub(crate) fn all(place: &Path) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(Error::disk(format!("cannot look into {}", place.display())))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect())
    }
}

/// Notes which tree of a worktree was applied.
pub(crate) fn note_applied(place: &Path, id: &str, tree: &str) -> Result<(), Error> {
    let path = applied_path(place, id);
    publish(&path, tree.as_bytes()).map_err(Error::disk(format!("cannot write {}", path.display())))
}

/// Returns which tree of a worktree was applied last.
pub(crate) fn applied(place: &Path, id: &str) -> Option<String> {
    std::fs::read_to_string(applied_path(place, id)).ok()
}

/// Writes a file that is seen whole or not at all.
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
    fn a_record_reads_back_and_is_stored_in_fixed_words() {
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
    fn a_record_that_does_not_read_is_not_an_absent_one() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("job.json"), "{").unwrap();
        assert!(Record::read(place.path(), "job").is_err());
    }
}
