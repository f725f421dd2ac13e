//! A place for one look at a worktree: indexes and new objects that nobody else sees. The repository is only read.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_proc::Identity;

use crate::Error;
use crate::run::{Call, Repository};

/// The folder of all of them, beside the worktrees.
const FOLDER: &str = "scratch";

/// A folder that goes when this is dropped, or is swept up if its process died.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes one below a place.
    pub(crate) fn new(place: &Path) -> Result<Scratch, Error> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(FOLDER).join(format!("{}-{number}", std::process::id()));
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("objects"));
        made.map_err(Error::disk(format!("cannot make {}", folder.display())))?;
        Ok(Scratch { folder })
    }

    /// Returns a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns a call that writes its objects here and has its index here.
    pub(crate) fn call<'a>(&self, repository: &'a Repository, index: &str) -> Call<'a> {
        let mut call = repository.call();
        call.env("GIT_OBJECT_DIRECTORY", self.folder.join("objects"));
        call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&repository.dir.join("objects")));
        call.env("GIT_INDEX_FILE", self.file(index));
        call
    }
}

/// Quotes a path for a list that is separated by colons.
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
        // What cannot be removed now is swept up later.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes what processes that are gone left.
pub(crate) fn sweep(place: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(place.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        let is_used = pid.is_some_and(|pid: i32| Identity::of(pid).is_some_and(|who| who.is_alive()));
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
    fn what_a_dead_process_left_is_swept_up_and_what_is_used_is_not() {
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
    fn a_path_with_odd_characters_is_one_path_of_a_list() {
        assert_eq!(quoted(Path::new("/a:b\"c\\d")), "\"/a:b\\\"c\\\\d\"");
    }
}
