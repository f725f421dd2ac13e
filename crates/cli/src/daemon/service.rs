//! What a process serves: the folder it works in, and how its journal is opened and its engine started.

use std::path::PathBuf;

use lastword_api::Code;
use lastword_core::limits::Limits;
use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, LocalHost, Options};
use lastword_git::{Git, Worktrees};
use lastword_proc::Nursery;
use lastword_store::Store;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::host_id::host_id;
use super::log::Log;
use super::names::machine;
use super::role::Role;
use super::start::executable;
use super::{JOBS, LOG};
use crate::environment;
use crate::failure::Failure;
use crate::lock::{Attempt, Holder, Lock};
use crate::paths::{self, Paths};
use crate::settings::Settings;

/// The folder of jobs' worktrees.
const WORKTREES: &str = "worktrees";

/// A daemon, a server or a worker.
pub(crate) trait Service {
    /// Its journal.
    type Journal: Store;

    /// What it is.
    const ROLE: Role;

    /// Completes the host on which it starts jobs.
    fn host(&self, host: LocalHost, _paths: &Paths) -> Result<LocalHost, Failure> {
        Ok(host)
    }

    /// Opens the journal, and begins whatever is served beside the API.
    async fn open(&self, place: &Place) -> Result<Self::Journal, Failure>;

    /// Starts an engine.
    fn start(&self, place: &Place, journal: &Self::Journal) -> Engine<Self::Journal>;
}

/// Where a process works.
pub(crate) struct Place {
    pub(crate) paths: Paths,
    pub(crate) settings: Settings,
    pub(crate) host: LocalHost,
    pub(crate) host_id: HostId,
}

impl Place {
    /// Returns the options of an engine here, as the settings say.
    pub(crate) fn options(&self, owner: OwnerId) -> Options {
        let settings = &self.settings;
        // A setting of 0 means no limit.
        let slots = u32::try_from(settings.number("slots")).ok().filter(|slots| *slots > 0);
        Options {
            default_slots: slots,
            limits: Limits {
                wall_ms: settings.number_if_set("limits.wall"),
                stall_ms: settings.number_if_set("limits.stall"),
                output_bytes: settings.number_if_set("limits.output"),
                ..Limits::default()
            },
            ..Options::new(owner, self.host_id.clone())
        }
    }
}

/// Everything that a process needs before it opens its journal.
pub(super) struct Prepared {
    pub(super) place: Place,
    pub(super) log: Log,
    // The last field, so it is dropped last: once the lock is free, another daemon may open all of the above.
    pub(super) lock: Lock,
}

/// Prepares everything. The inner `Err` is not a failure: another daemon has the lock, and is returned if it is known.
pub(super) fn prepare<S: Service>(
    service: &S,
    paths: &Paths,
    flags: &[String],
) -> Result<Result<Prepared, Option<Holder>>, Failure> {
    let settings = Settings::of_process(paths, flags)?;
    paths::make_private(&paths.state)?;
    let lock = match Lock::take(paths, settings.in_force())? {
        Attempt::Acquired(lock) => lock,
        Attempt::Held(holder) => return Ok(Err(holder)),
    };
    let log_path = paths.in_state(LOG);
    let log = Log::open(&log_path)
        .map_err(|error| Failure::new(Code::Unavailable, format!("{}: {error}", log_path.display())))?;
    let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).with_target(false);
    // Fails only in a test that runs two daemons in one process.
    let _ = tracing::subscriber::set_global_default(lines.with_max_level(settings.log_level()).finish());
    // This process needs a descriptor per live job, so it raises its limit to the maximum. Jobs must not inherit that: the nursery, their
    // ancestor, is started under the user's own limit.
    let user_limit = getrlimit(Resource::Nofile);
    let host = LocalHost::new(paths.in_state(JOBS), move || {
        let _ = setrlimit(Resource::Nofile, user_limit);
        let nursery = nursery();
        let _ = setrlimit(Resource::Nofile, Rlimit { current: user_limit.maximum, ..user_limit });
        nursery
    });
    let host = host.map_err(|error| {
        Failure::new(Code::Unavailable, format!("cannot use the folder of jobs: {error}"))
    })?;
    let host = host.keeping(settings.number("output.head"), settings.number("output.tail"));
    let worktrees = Worktrees::new(Git::new(environment::all()), &paths.data.join(WORKTREES));
    // The daemon starts without worktrees, too: only jobs that ask for one fail.
    let host = match worktrees {
        Ok(worktrees) => host.with_worktrees(worktrees),
        Err(error) => {
            tracing::warn!(%error, "worktrees are unavailable");
            host
        }
    };
    // Before the journal, whose absence tells that the folder is new.
    let host_id = host_id(&paths.state, machine)?;
    S::ROLE.settle(paths)?;
    let host = service.host(host, paths)?;
    Ok(Ok(Prepared { place: Place { paths: paths.clone(), settings, host, host_id }, log, lock }))
}

/// Starts the nursery in a scope of the user's service manager, if there is one, so that trees outlive the session and have control
/// groups; otherwise directly.
pub(crate) fn nursery() -> Result<Nursery, lastword_proc::Error> {
    let executable = executable().map_err(|source| {
        let what = "cannot find the path of this executable".to_owned();
        lastword_proc::Error::Io { what, source }
    })?;
    let runtime_dir = environment::get_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(dir) = runtime_dir.filter(|dir| dir.join("systemd/private").exists()) {
        match Nursery::start_in_scope(&executable, &dir) {
            Ok(nursery) => return Ok(nursery),
            Err(error) => {
                tracing::warn!(%error, "cannot start in a scope of the service manager; jobs run without one")
            }
        }
    }
    Nursery::start(&executable)
}
