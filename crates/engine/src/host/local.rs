//! This machine as a host: one folder per job, and in it one per attempt.
//!
//! ```text
//! jobs/<id>/env          the environment of its commands; private, removed with the last word
//! jobs/<id>/<attempt>/   the keeper's own: claim, exit, stdout, stderr, its socket
//! ```

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lastword_core::ids::Incarnation;
use lastword_core::spec::OnPartition;
use lastword_core::{AttemptNo, Awake, BootTime, Job, JobId, Now, Timestamp};
use lastword_git::Worktrees;
use lastword_proc::{self as proc, Error, Finding, Keep, Launch, LeaseFile, Nursery, User, clock};
use tokio::sync::Semaphore;

use super::gits::Gits;
use super::keeper_table::KeeperTable;
use super::leases::Leases;
use super::traits::Clock;
use crate::lock::lock;

/// Blocking calls (launch, locate, files) at once; each holds a thread. Most take about a millisecond. A sweep for what a dead keeper left
/// takes longer, and must not hold up the others.
const CALLS_MAX: usize = 8;

/// Starts a nursery.
type Start = dyn Fn() -> Result<Nursery, Error> + Send + Sync;

/// Returns the present by the clocks of this machine.
pub fn now() -> Now {
    Now { wall: Timestamp(clock::wall_ms()), awake: Awake(clock::awake_ms()) }
}

/// This machine: keepers in folders below one place, started through one nursery.
#[derive(Clone)]
pub struct LocalHost(pub(super) Arc<Inner>);

pub(super) struct Inner {
    start: Box<Start>,
    /// The nursery; replaced when it is gone.
    nursery: Mutex<Arc<Nursery>>,
    /// The folder that holds the job folders.
    pub(super) place: PathBuf,
    /// How much of each stream is kept.
    pub(super) keep: Keep,
    pub(super) keepers: KeeperTable,
    /// `None` if trees run without a lease: the journal belongs to this host alone.
    pub(super) leases: Option<Leases>,
    /// The environment from which jobs get what they name; `None` if each has its own.
    pub(super) own_env: Option<Vec<(OsString, OsString)>>,
    /// The user that jobs run as, and the folder of their folders; `None` for the user of this process.
    pub(super) user: Option<(User, PathBuf)>,
    /// `None` if this host keeps no worktrees.
    pub(super) gits: Option<Gits>,
    calls: Arc<Semaphore>,
}

impl std::fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHost").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl LocalHost {
    /// Keeps jobs below `place`, which is created if missing. `start` starts a nursery: now, and whenever it is gone.
    pub fn new(
        place: PathBuf,
        start: impl Fn() -> Result<Nursery, Error> + Send + Sync + 'static,
    ) -> Result<LocalHost, Error> {
        proc::Folder::create(&place)
            .map_err(|source| Error::Io { what: format!("cannot create {}", place.display()), source })?;
        let nursery = Mutex::new(Arc::new(start()?));
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        let keep = Launch::new(&place, [""; 0]).stdout;
        Ok(LocalHost(Arc::new(Inner {
            start: Box::new(start),
            nursery,
            place,
            keep,
            keepers: KeeperTable::default(),
            leases: None,
            own_env: None,
            user: None,
            gits: None,
            calls,
        })))
    }

    /// Keeps so many of the first and of the last bytes of each stream. Call it before the host is shared.
    pub fn keeping(mut self, head: u64, tail: u64) -> LocalHost {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.keep = Keep::Caps { head, tail };
        }
        self
    }

    /// Has every tree follow the lease of the life that launched or adopted it, except those of jobs that keep running without one. The
    /// lease files are kept in `folder`; one in memory, such as the user's runtime folder, can be written while the disk is full. Call it
    /// before the host is shared.
    pub fn with_leases(mut self, folder: PathBuf) -> Result<LocalHost, Error> {
        let what = format!("cannot create {}", folder.display());
        let leases = Leases::new(folder).map_err(|source| Error::Io { what, source })?;
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.leases = Some(leases);
        }
        Ok(self)
    }

    /// Gives each job the usual variables of this environment and those that it names: it was submitted on another host. Call it before the
    /// host is shared.
    pub fn with_env(mut self, own: Vec<(OsString, OsString)>) -> LocalHost {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.own_env = Some(own);
        }
        self
    }

    /// Runs jobs as another user, who cannot read what this process keeps. Jobs that name no folder get one in `work`, which other users may
    /// pass through and not list. Call it before the host is shared.
    pub fn with_user(mut self, user: User, work: PathBuf) -> io::Result<LocalHost> {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        std::fs::DirBuilder::new().recursive(true).mode(0o711).create(&work)?;
        std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o711))?;
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.user = Some((user, work));
        }
        Ok(self)
    }

    /// Returns the folder of a job that names none.
    pub(super) fn own_folder(&self, job: JobId) -> PathBuf {
        match &self.0.user {
            Some((_, work)) => work.join(job.to_string()),
            None => self.folder(job).join("work"),
        }
    }

    /// Makes that folder, for the user that the job runs as.
    pub(super) fn make_own_folder(&self, job: JobId) -> io::Result<()> {
        let folder = self.own_folder(job);
        proc::Folder::create(&folder)?;
        match &self.0.user {
            Some((user, _)) => std::os::unix::fs::chown(folder, Some(user.uid), user.groups.first().copied()),
            None => Ok(()),
        }
    }

    /// Keeps worktrees of jobs on this host. Call it before the host is shared.
    pub fn with_worktrees(mut self, worktrees: Worktrees) -> LocalHost {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.gits = Some(Gits::new(worktrees));
        }
        self
    }

    /// Returns the containment levels of this machine, with a reason for each that is missing.
    pub fn findings(&self) -> Vec<Finding> {
        self.nursery().findings().to_vec()
    }

    /// Returns the folder of a job.
    pub fn folder(&self, job: JobId) -> PathBuf {
        self.0.place.join(job.to_string())
    }

    /// Returns the folder of an attempt.
    pub fn dir(&self, job: JobId, attempt: AttemptNo) -> PathBuf {
        self.folder(job).join(attempt.0.to_string())
    }

    /// Returns the lease that a tree of this job has to follow. There is none on a host without leases, nor for a job that keeps running
    /// without one.
    pub(super) fn lease_of(&self, job: &Job, life: Incarnation) -> Option<LeaseFile> {
        let keeps = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
        self.0.leases.as_ref().filter(|_| !keeps).map(|leases| leases.of(life))
    }

    pub(super) fn nursery(&self) -> Arc<Nursery> {
        Arc::clone(&lock(&self.0.nursery))
    }

    /// Replaces a nursery that is gone, unless another call has already.
    pub(super) fn replace_nursery(&self, gone: &Arc<Nursery>) -> Result<Arc<Nursery>, Error> {
        let mut nursery = lock(&self.0.nursery);
        if Arc::ptr_eq(&nursery, gone) {
            *nursery = Arc::new((self.0.start)()?);
        }
        Ok(Arc::clone(&nursery))
    }

    /// Runs a call that waits for a keeper or a disk on a thread that may block.
    pub(super) async fn blocking<R: Send + 'static>(
        &self,
        run: impl FnOnce(&LocalHost) -> R + Send + 'static,
    ) -> Result<R, String> {
        let host = self.clone();
        // The semaphore is never closed.
        let permit = Arc::clone(&self.0.calls).acquire_owned().await.map_err(|error| error.to_string())?;
        let ran = tokio::task::spawn_blocking(move || {
            let answer = run(&host);
            drop(permit);
            answer
        });
        ran.await.map_err(|error| error.to_string())
    }

    /// The same, for a call that returns an IO error.
    pub(super) async fn blocking_io<R: Send + 'static>(
        &self,
        run: impl FnOnce(&LocalHost) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        self.blocking(run).await.map_err(io::Error::other)?
    }
}

impl Clock for LocalHost {
    fn now(&self) -> Now {
        now()
    }

    fn since_boot(&self) -> BootTime {
        BootTime(clock::boot_ms())
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }
}
