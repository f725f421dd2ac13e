//! Which profiles of repositories a person trusts: one private file for each repository, with its path and the hash of the content.
//!
//! A file for each, so that two commands at once do not undo each other.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use lastword_api::Code;
use serde::{Deserialize, Serialize};

use super::repository::sha256;
use crate::failure::Failure;
use crate::paths::{self, Paths};

/// The profiles that are trusted.
pub(crate) struct Trusted {
    folder: PathBuf,
}

/// A repository, and the content of its profile that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The canonical path of its root.
    pub(crate) root: PathBuf,
    pub(crate) sha256: String,
}

impl Trusted {
    /// Returns those of a user.
    pub(crate) fn of(paths: &Paths) -> Trusted {
        Trusted { folder: paths.in_state("trusted") }
    }

    /// Returns the hash that is trusted for a repository. Fails if that cannot be known.
    pub(crate) fn hash_of(&self, root: &Path) -> Result<Option<String>, Failure> {
        let record = self.read(&self.file_of(root))?;
        Ok(record.filter(|record| record.root == root).map(|record| record.sha256))
    }

    /// Trusts a content, and no other, for a repository.
    pub(crate) fn add(&self, record: &Record) -> Result<(), Failure> {
        paths::make_private(&self.folder)?;
        let path = self.file_of(&record.root);
        let text = serde_json::to_vec(record).map_err(std::io::Error::from);
        text.and_then(|text| publish(&path, &text)).map_err(|error| failed("write", &path, &error))
    }

    /// Trusts no content for a repository; reports whether one was trusted.
    pub(crate) fn remove(&self, root: &Path) -> Result<bool, Failure> {
        let path = self.file_of(root);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("remove", &path, &error)),
        }
    }

    /// Returns all of them, by path.
    pub(crate) fn all(&self) -> Result<Vec<Record>, Failure> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed("list", &self.folder, &error))?,
        };
        let files = entries.flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut all = Vec::new();
        for file in files {
            all.extend(self.read(&file)?);
        }
        all.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(all)
    }

    fn read(&self, path: &Path) -> Result<Option<Record>, Failure> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| failed("read", path, &error))?,
        };
        // What other users may write says nothing about this one.
        paths::check_private(&self.folder)?;
        let record = serde_json::from_slice(&text).map_err(std::io::Error::from);
        record.map(Some).map_err(|error| failed("read", path, &error))
    }

    /// Returns the file of a repository. Its name is a hash, because a path may be longer than a name.
    fn file_of(&self, root: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", sha256(root.as_os_str().as_encoded_bytes())))
    }
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::Unavailable, format!("cannot {verb} {}: {error}", path.display()))
}

/// Replaces a file atomically.
fn publish(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension(std::process::id().to_string());
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn record(root: &str, sha256: &str) -> Record {
        Record { root: root.into(), sha256: sha256.to_owned() }
    }

    #[test]
    fn a_record_is_private_and_replaced_by_the_next() {
        let place = tempfile::tempdir().unwrap();
        let trusted = Trusted { folder: place.path().join("trusted") };
        assert_eq!(trusted.all().unwrap(), []);
        trusted.add(&record("/b", "1")).unwrap();
        trusted.add(&record("/a", "2")).unwrap();
        trusted.add(&record("/b", "3")).unwrap();
        assert_eq!(trusted.all().unwrap(), [record("/a", "2"), record("/b", "3")]);
        assert_eq!(trusted.hash_of(Path::new("/b")).unwrap().as_deref(), Some("3"));
        assert_eq!(trusted.hash_of(Path::new("/b/c")).unwrap(), None);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&trusted.folder), mode(&trusted.file_of(Path::new("/b")))), (0o700, 0o600));
        assert!(trusted.remove(Path::new("/b")).unwrap() && !trusted.remove(Path::new("/b")).unwrap());
        assert_eq!(trusted.all().unwrap(), [record("/a", "2")]);
    }

    #[test]
    fn a_record_that_others_may_write_or_that_does_not_parse_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let trusted = Trusted { folder: place.path().join("trusted") };
        let root = Path::new("/a");
        trusted.add(&record("/a", "1")).unwrap();
        std::fs::set_permissions(&trusted.folder, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(trusted.hash_of(root).is_err());
        std::fs::set_permissions(&trusted.folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(trusted.hash_of(root).is_ok());
        // A record of another path, moved here.
        std::fs::rename(trusted.file_of(root), trusted.file_of(Path::new("/b"))).unwrap();
        assert_eq!(trusted.hash_of(Path::new("/b")).unwrap(), None);
        std::fs::write(trusted.file_of(root), "{").unwrap();
        assert!(trusted.hash_of(root).is_err());
    }
}
