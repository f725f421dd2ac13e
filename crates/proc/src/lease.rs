//! The lease file of one life of a worker: until when its trees may run.
//!
//! All trees of a life follow one file, so a renewal is one write however many there are. The new time is written over a second file, and the
//! two are exchanged: a reader sees the old time or the new one, and a renewal needs no room on a full disk. The file names its boot, because
//! the clock that it is read by starts again with each boot and the file may be in a folder that outlives one. Nothing is synced: after a power
//! cut no tree is left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::clock;
use crate::identity::{UNKNOWN_BOOT, boot_id};
use crate::limits;
use crate::line_format::Line;

/// The size limit of a lease file: a boot id and a number.
const BYTES_MAX: u64 = 256;

/// What the name of the second file ends with.
const DRAFT: &str = ".tmp";

/// A lease file, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFile(PathBuf);

impl LeaseFile {
    /// Returns the lease file with this absolute path. Its folder must be private.
    pub fn new(path: impl Into<PathBuf>) -> LeaseFile {
        LeaseFile(path.into())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Lets the trees that follow this file run until then, in milliseconds of the boot clock (`CLOCK_BOOTTIME`). A file has one writer.
    pub fn write(&self, until: u64) -> io::Result<()> {
        // Of one length, so that it fits where the one before was. Twice, because a reader that stood still may have the second file open.
        let digits = format!("{until:020}");
        let line = Line::new("lease").with("boot", boot_id()).with("until", &digits).with("again", &digits);
        let (line, draft) = (line.to_string(), self.draft());
        put(&draft, &line)?;
        match renameat_with(CWD, &draft, CWD, &self.0, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            // The first time there is nothing to exchange it with. The room for the next time is taken at once; without it that may fail.
            Err(Errno::NOENT) => fs::rename(&draft, &self.0).map(|()| drop(put(&draft, &line))),
            // Some file systems cannot exchange.
            Err(_) => fs::rename(&draft, &self.0),
        }
    }

    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.draft()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_file(&self.0)
    }

    /// Returns the second file.
    fn draft(&self) -> PathBuf {
        let mut draft = self.0.clone().into_os_string();
        draft.push(DRAFT);
        draft.into()
    }

    /// Reports whether it is the second file of another one.
    pub fn is_draft(&self) -> bool {
        self.0.as_os_str().as_bytes().ends_with(DRAFT.as_bytes())
    }

    /// Returns until when the lease lasts; `None` if it is missing, cannot be read or is of another boot. Nothing may run on such a lease.
    pub fn read(&self) -> Option<u64> {
        let mut text = String::new();
        limits::retried(|| File::open(&self.0)?.take(BYTES_MAX).read_to_string(&mut text)).ok()?;
        let line = Line::parse(text.strip_suffix('\n')?)?;
        let is_ours = line.kind() == "lease" && line.text("boot") == Some(boot_id());
        // Files of older versions say it once.
        let is_whole = line.text("again").is_none_or(|again| line.text("until") == Some(again));
        line.get("until").filter(|_| is_ours && is_whole && boot_id() != UNKNOWN_BOOT)
    }

    /// Reports whether nothing may run on this lease any more.
    pub fn is_over(&self) -> bool {
        self.read().is_none_or(|until| clock::boot_ms() >= until)
    }
}

/// Writes a line over what a file holds.
fn put(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all(line.as_bytes())?;
    file.set_len(line.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirEntryExt as _;

    use super::*;

    #[test]
    fn a_lease_file_says_until_when_and_only_in_its_boot() {
        let folder = tempfile::tempdir().unwrap();
        let lease = LeaseFile::new(folder.path().join("1.1"));
        assert_eq!((lease.read(), lease.is_over()), (None, true), "there is none");
        lease.write(7).unwrap();
        assert_eq!((lease.read(), lease.is_over()), (Some(7), true));
        lease.write(u64::MAX).unwrap();
        assert_eq!((lease.read(), lease.is_over()), (Some(u64::MAX), false));
        let far = 19_999_999_999;
        lease.write(far).unwrap();
        assert_eq!((lease.read(), lease.is_over()), (Some(far), false));
        let written = fs::read_to_string(lease.path()).unwrap();
        for other in [
            written.replace(boot_id(), "another"),
            written.replace("lease", "least"),
            written.trim_end().to_owned(),
            written.replacen("999", "998", 1),
            written[..written.len() / 2].to_owned(),
            String::new(),
        ] {
            fs::write(lease.path(), &other).unwrap();
            assert_eq!((lease.read(), lease.is_over()), (None, true), "{other:?}");
        }
        lease.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_file_of_an_older_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let lease = LeaseFile::new(folder.path().join("1.1"));
        fs::write(lease.path(), Line::new("lease").with("boot", boot_id()).with("until", 7).to_string())
            .unwrap();
        assert_eq!(lease.read(), Some(7));
        lease.write(8).unwrap();
        assert_eq!(lease.read(), Some(8));
    }

    #[test]
    fn a_renewal_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let lease = LeaseFile::new(folder.path().join("1.1"));
        let inodes = || {
            let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
            let mut inodes: Vec<u64> = entries.map(|entry| entry.ino()).collect();
            inodes.sort_unstable();
            inodes
        };
        lease.write(1).unwrap();
        let first = inodes();
        assert_eq!(first.len(), 2);
        for until in [2, u64::MAX, 3] {
            lease.write(until).unwrap();
            assert_eq!((lease.read(), inodes()), (Some(until), first.clone()));
        }
    }
}
