//! The profile of a repository, as it stands on disk: written by anyone who may commit there, so it is data until a person trusts it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// The name of the file.
const FILE: &str = ".lastword.toml";

/// Bytes of a profile: many times what its keys need, and little enough to be shown whole.
const BYTES_MAX: u64 = 64 << 10;

/// A profile of a repository. What is hashed, shown and parsed are the same bytes.
pub(crate) struct RepositoryProfile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the root of the repository that a folder belongs to; without a repository, the folder itself. The folder is canonical.
pub(crate) fn root_of(folder: &Path) -> &Path {
    // A worktree has a file `.git`.
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok()).unwrap_or(folder)
}

/// Returns the path of a repository's profile.
pub(crate) fn file_of(root: &Path) -> PathBuf {
    root.join(FILE)
}

impl RepositoryProfile {
    /// Reads the profile of a repository; `None` if it has none. The error says why it cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Option<RepositoryProfile>, String> {
        let path = file_of(root);
        // A link may lead out of the repository.
        let bytes = read_bounded(&path, OFlags::NOFOLLOW)?;
        Ok(bytes.map(|bytes| RepositoryProfile { path, bytes }))
    }

    /// Returns the SHA-256 of the content.
    pub(crate) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }
}

/// Reads a regular file that is not too large for a profile; `None` if there is none.
pub(super) fn read_bounded(path: &Path, more: OFlags) -> Result<Option<Vec<u8>>, String> {
    // Opening a pipe may wait for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
        Err(error) => return Err(std::io::Error::from(error).to_string()),
    };
    let failed = |error: std::io::Error| error.to_string();
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err("it is larger than 64 KiB".to_owned()),
        false => Ok(Some(bytes)),
    }
}

/// Returns a SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_nearest_folder_with_git_or_the_folder_itself() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        let inner = top.join("repo/inner/deep");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(root_of(&inner), inner);
        std::fs::create_dir(top.join("repo/.git")).unwrap();
        assert_eq!(root_of(&inner), top.join("repo"));
        std::fs::write(top.join("repo/inner/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(root_of(&inner), top.join("repo/inner"));
    }

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (top, file) = (place.path(), place.path().join(FILE));
        let read = || RepositoryProfile::read(top).map(|found| found.map(|found| found.bytes.len()));
        assert_eq!(read(), Ok(None));
        std::fs::write(&file, vec![b'#'; BYTES_MAX as usize]).unwrap();
        assert_eq!(read(), Ok(Some(BYTES_MAX as usize)));
        std::fs::write(&file, vec![b'#'; BYTES_MAX as usize + 1]).unwrap();
        assert_eq!(read(), Err("it is larger than 64 KiB".to_owned()));
        std::fs::rename(&file, top.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &file).unwrap();
        assert_eq!(read(), Err("it is a symbolic link".to_owned()));
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(read(), Err("it is not a regular file".to_owned()));
        std::fs::remove_dir(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(), Err("it is not a regular file".to_owned()));
    }

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
