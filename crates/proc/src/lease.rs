//! The lease file of one life of a worker: until when its trees may run.
//!
//! All trees of a life follow one file, so a renewal is one write however many there are. The file is renamed into place, so a reader sees
//! the old time or the new one. It names its boot, because the clock that it is read by starts again with each boot and the file may be in
//! a folder that outlives one. Nothing is synced: after a power cut no tree is left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::identity::{UNKNOWN_BOOT, boot_id};
use crate::limits;
use crate::line_format::Line;

/// The size limit of a lease file: a boot id and a number.
const BYTES_MAX: u64 = 256;

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
        let mut draft = self.0.clone().into_os_string();
        draft.push(".tmp");
        let line = Line::new("lease").with("boot", boot_id()).with("until", until).to_string();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(line.as_bytes())?;
        fs::rename(&draft, &self.0)
    }

    /// Returns until when the lease lasts; `None` if it is missing, cannot be read or is of another boot. Nothing may run on such a lease.
    pub fn read(&self) -> Option<u64> {
        let mut text = String::new();
        limits::retried(|| File::open(&self.0)?.take(BYTES_MAX).read_to_string(&mut text)).ok()?;
        let line = Line::parse(text.strip_suffix('\n')?)?;
        let is_ours = line.kind() == "lease" && line.text("boot") == Some(boot_id());
        line.get("until").filter(|_| is_ours && boot_id() != UNKNOWN_BOOT)
    }

    /// Reports whether nothing may run on this lease any more.
    pub fn is_over(&self) -> bool {
        self.read().is_none_or(|until| clock::boot_ms() >= until)
    }
}

#[cfg(test)]
mod tests {
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
        let written = fs::read_to_string(lease.path()).unwrap();
        for other in [
            written.replace(boot_id(), "another"),
            written.replace("lease", "least"),
            written.trim_end().to_owned(),
            written[..written.len() / 2].to_owned(),
            String::new(),
        ] {
            fs::write(lease.path(), &other).unwrap();
            assert_eq!((lease.read(), lease.is_over()), (None, true), "{other:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
