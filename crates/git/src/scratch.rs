//! Private scratch space for one view of a worktree: its own index and object store, so that the repository is only read.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_proc::Identity;

use crate::Error;
use crate::run::{Invocation, Repository};

/// The folder of all scratch folders, beside the worktrees.
const FOLDER: &str = "scratch";

/// A folder that is removed on drop, or by [`sweep`] if its process died first.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates a scratch folder below `place`.
    pub(crate) fn new(place: &Path) -> Result<Scratch, Error> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(FOLDER).join(format!("{}-{number}", std::process::id()));
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("objects"));
        made.map_err(Error::disk(format!("cannot create {}", folder.display())))?;
        Ok(Scratch { folder })
    }

    /// Returns the path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Prepares an invocation that writes its objects and its index here.
    pub(crate) fn call<'a>(&self, repository: &'a Repository, index: &str) -> Invocation<'a> {
        let mut call = repository.call();
        call.env("GIT_OBJECT_DIRECTORY", self.folder.join("objects"));
        call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&repository.dir.join("objects")));
        call.env("GIT_INDEX_FILE", self.file(index));
        call
    }
}

/// Quotes a path for `GIT_ALTERNATE_OBJECT_DIRECTORIES`, whose separator is a colon.
fn quoted(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    std::ffi::OsString::from_vec(text)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `sweep` removes what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes the scratch folders of dead processes.
pub(crate) fn sweep(place: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(place.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        let is_used = pid.is_some_and(|pid: i32| Identity::of(pid).is_some_and(|process| process.is_alive()));
        if !is_used {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_only_folders_of_dead_processes() {
        let place = tempfile::tempdir().unwrap();
        let used = Scratch::new(place.path()).unwrap();
        let left = place.path().join(FOLDER).join("999999999-0/objects");
        std::fs::create_dir_all(&left).unwrap();
        sweep(place.path()).unwrap();
        assert!(!left.exists() && used.file("objects").exists());
        let folder = used.folder.clone();
        drop(used);
        assert!(!folder.exists());
        sweep(tempfile::tempdir().unwrap().path()).unwrap();
    }

    #[test]
    fn a_path_with_separators_is_quoted_as_one_path() {
        assert_eq!(quoted(Path::new("/a:b\"c\\d")), "\"/a:b\\\"c\\\\d\"");
    }
}
