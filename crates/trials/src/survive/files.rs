//! The files of one round.

use std::path::{Path, PathBuf};

use lastword_proc::{Keeper, Stop};

/// Jobs of one stand-in: some are launched, some running, some over when it dies.
pub(crate) const JOBS: u64 = 4;

/// Where one stand-in works, and what it promised.
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn at(root: &Path) -> Files {
        Files { root: root.to_owned() }
    }

    /// Returns the folder of a job's attempt.
    pub(crate) fn folder(&self, job: u64) -> PathBuf {
        self.root.join(format!("job-{job}"))
    }

    /// Returns the file that a job's leader makes when it starts.
    pub(crate) fn started(&self, job: u64) -> PathBuf {
        self.root.join(format!("started-{job}"))
    }

    /// Returns the file in which the stand-in says what it was told.
    pub(crate) fn promises(&self) -> PathBuf {
        self.root.join("promises")
    }
}

impl Drop for Files {
    /// Ends what a failed round leaves behind.
    fn drop(&mut self) {
        for job in 0..JOBS {
            if let Ok(mut keeper) = Keeper::connect(&self.folder(job), 0) {
                let _ = keeper.stop(Stop { cause: "cancel", force: true, ..Stop::default() });
            }
        }
    }
}
