//! Leases: one file for each life of this worker, which the keepers of its trees follow.

use std::io;
use std::path::PathBuf;

use lastword_core::ids::Incarnation;
use lastword_proc::{Folder, LeaseFile};

/// The folder of the lease files.
#[derive(Debug)]
pub(super) struct Leases(PathBuf);

impl Leases {
    /// Keeps lease files in this folder, which is created if missing.
    pub(super) fn new(folder: PathBuf) -> io::Result<Leases> {
        Folder::create(&folder)?;
        Ok(Leases(folder))
    }

    /// Returns the file of a life, whether it exists or not. It is named after the instance too: another one may give the same number again.
    pub(super) fn of(&self, life: Incarnation) -> LeaseFile {
        LeaseFile::new(self.0.join(format!("{:x}-{}", life.instance, life.number)))
    }

    /// Lets the trees of a life run until then. The first time, removes the files of lives that are over.
    pub(super) fn extend(&self, life: Incarnation, until: u64) -> io::Result<()> {
        let lease = self.of(life);
        let is_first = !lease.path().exists();
        lease.write(until)?;
        if is_first {
            for entry in std::fs::read_dir(&self.0)?.flatten() {
                let other = LeaseFile::new(entry.path());
                if other != lease && !other.is_draft() && other.is_over() {
                    // What is left over is removed by the next life.
                    let _ = other.remove();
                }
            }
        }
        Ok(())
    }
}
