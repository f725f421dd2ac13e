//! The trees that have a living keeper here, whether or not a journal knows their jobs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::claim::Claim;
use crate::error::Error;
use crate::exit_record::ExitRecord;
use crate::folder::{self, Folder};
use crate::identity::{Identity, boot_id};
use crate::locate;
use crate::missing;
use crate::tree;

/// A tree with a living keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name of its job's folder, which is the job's id.
    pub job: String,
    /// The command of its leader, truncated; empty if that has exited.
    pub command: String,
    /// Its leader, if that was started.
    pub leader: Option<Identity>,
    dir: PathBuf,
    shim: Option<Identity>,
}

impl Kept {
    /// Asks the keeper to stop the tree, and waits for its record; `None` if there is none after `within`.
    pub fn stop(&self, within: Duration) -> Result<Option<ExitRecord>, Error> {
        let what = || format!("cannot stop {}", self.job);
        let shim = self.shim.as_ref().ok_or_else(|| io::Error::other("its keeper has not started it yet"));
        shim.and_then(|shim| shim.signal(Signal::TERM)).map_err(Error::io(what()))?;
        locate::wait(&self.dir, within)
    }
}

/// Returns the trees with a living keeper whose jobs have their folders in `jobs`. Keepers whose folders were deleted make them again first.
pub fn kept_in(jobs: &Path) -> io::Result<Vec<Kept>> {
    missing::restore_all()?;
    let entries = match std::fs::read_dir(jobs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for job in entries.flatten() {
        let attempts = std::fs::read_dir(job.path()).into_iter().flatten().flatten();
        let name = job.file_name().to_string_lossy().into_owned();
        found.extend(attempts.filter_map(|attempt| kept(&name, attempt.path())));
    }
    found.sort_by(|one, other| one.job.cmp(&other.job));
    Ok(found)
}

/// Returns the tree of an attempt's folder, if its keeper is alive.
fn kept(job: &str, dir: PathBuf) -> Option<Kept> {
    let folder = Folder::open(&dir).ok()?;
    let Ok(Some((file, Claim::Keeper(keeper)))) = Claim::read(&folder) else { return None };
    let is_held = folder::is_locked(&file).unwrap_or(false) || folder.is_locked();
    if keeper.guard.boot != boot_id() || !is_held {
        return None;
    }
    let leader = keeper.leader.map(|leader| leader.identity);
    let command = leader.as_ref().filter(|leader| leader.is_alive()).map(|leader| tree::command(leader.pid));
    let command = command.unwrap_or_default();
    Some(Kept { job: job.to_owned(), command, leader, dir, shim: keeper.shim })
}
