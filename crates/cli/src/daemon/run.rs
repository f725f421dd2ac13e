//! `daemon run`: the daemon from taking the lock to its last request.
//!
//! The order: settings, private folder, lock, log, nursery, journal, engine, socket. If one fails, the starter is told and nothing is
//! created in its place: an unreadable journal is not an empty one.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_api::{Code, JobsFate, VERSION};
use lastword_core::limits::Limits;
use lastword_core::receipt::Level;
use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, Jobs, LocalHost, Options};
use lastword_git::{Git, Worktrees};
use lastword_proc::Nursery;
use lastword_server::{About, Closing, Endpoint};
use lastword_store::sqlite::Sqlite;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::host_id::host_id;
use super::log::Log;
use super::start::{READY, StartProblem, TAKEN, executable};
use super::{JOBS, LOG, limits, ping, socket};
use crate::doctor::trees;
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::lock::{Attempt, Holder, Lock};
use crate::paths::{self, Paths};
use crate::settings::Settings;

/// Threads that block on a disk or a keeper. Each costs a stack and an arena; idle ones exit.
const THREADS_MAX: usize = 16;

/// How long the starter waits at most for the daemon to recover its jobs.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The folder of jobs' worktrees.
const WORKTREES: &str = "worktrees";

/// Everything that a daemon needs before it serves.
struct Prepared {
    settings: Settings,
    log: Log,
    host: LocalHost,
    host_id: HostId,
    journal: Sqlite,
    // The last field, so it is dropped last: once the lock is free, another daemon may open all of the above.
    lock: Lock,
}

/// Runs a daemon until it is stopped.
pub(crate) fn run(paths: &Paths, flags: &[String], detached: bool) -> Outcome {
    // No core dump and no debugger: this process holds the environments of jobs, which contain secrets.
    lastword_proc::make_undumpable();
    lastword_proc::limits::remember();
    let paths = &socket::choose_path(paths);
    let starter = Starter { detached, socket: paths.socket.clone() };
    let prepared = match prepare(paths, flags) {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(_)) if detached => {
            starter.report(TAKEN);
            return Ok(0);
        }
        Ok(Err(holder)) => {
            let pid_note = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
            return Err(Failure::new(Code::Conflict, format!("a daemon is already running{pid_note}")));
        }
        Err(failure) => return Err(starter.refuse(failure)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .map_err(|error| starter.refuse(Failure::new(Code::Unavailable, format!("cannot start: {error}"))))?;
    let Prepared { settings, log, host, host_id, journal, mut lock } = prepared;
    let outcome = runtime.block_on(serve(paths, &settings, log, (host, host_id), journal, &lock, &starter));
    // Without waiting for threads that wait for a keeper: the next daemon finds what they would have reported.
    runtime.shutdown_background();
    lock.mark_stopped();
    outcome
}

/// Prepares everything. The inner `Err` is not a failure: another daemon has the lock, and is returned if it is known.
fn prepare(paths: &Paths, flags: &[String]) -> Result<Result<Prepared, Option<Holder>>, Failure> {
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
    let journal = Sqlite::open(&paths.state).map_err(|error| unreadable(paths, &error))?;
    Ok(Ok(Prepared { settings, log, host, host_id, journal, lock }))
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

/// Returns an error for an unusable journal. It is never replaced by an empty one.
fn unreadable(paths: &Paths, error: &lastword_store::Error) -> Failure {
    let state = paths.state.display();
    match error {
        lastword_store::Error::Corrupt(_) => Failure::new(Code::Corrupt, format!("{error} (in {state}); nothing was changed"))
            .next(format!("restore {state}/journal.db from a backup,"))
            .next("or move it away together with its -wal file: all jobs are then forgotten, and running ones are no longer watched"),
        other => Failure::new(Code::Unavailable, format!("{other} (in {state})")),
    }
}

/// Serves until the daemon is told to stop, then shuts down.
async fn serve(
    paths: &Paths,
    settings: &Settings,
    log: Log,
    (host, host_id): (LocalHost, HostId),
    journal: Sqlite,
    lock: &Lock,
    starter: &Starter,
) -> Outcome {
    let no_signals =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot receive signals: {error}"));
    let mut stop_signals =
        StopSignals::new().map_err(no_signals).map_err(|failure| starter.refuse(failure))?;
    // The level of a job that asks for none. A namespace must be asked for, so it does not count.
    let usable = host.findings().into_iter().filter(|(level, test)| *level <= Level::Cgroup && test.is_ok());
    let level = usable.map(|(level, _)| level).max().unwrap_or(Level::Subreaper);
    let about = About {
        user: user(),
        host: host_name(),
        state_dir: paths.state.clone(),
        level,
        agents: paths.agents(),
        prices: paths.prices(),
    };
    let start = || start_engine(settings, host.clone(), host_id.clone(), journal.clone());
    let engine = start();
    // For the first turn of the loop; a later turn binds a new socket after the old one was removed. We never bind the socket of a service
    // manager, so we do not watch it.
    let (endpoint, is_inherited) = endpoint(paths).map_err(|failure| starter.refuse(failure))?;
    let mut endpoint = Some(endpoint);
    ping::answer(&paths.socket);
    reopen_log_on_hangup(log);
    limits::watch(Arc::clone(engine.desk()));
    tracing::info!(version = VERSION, pid = std::process::id(), level = ?level, "the daemon is listening");
    report_when_ready(engine.clone(), starter.clone(), paths.clone());
    loop {
        let bound = match endpoint.take() {
            Some(endpoint) => endpoint,
            None => socket::bind(paths)?,
        };
        let why = Cell::new(StopReason::Requested);
        let stop = async {
            let (reason, closing) = tokio::select! {
                // In this order: with the folder, the socket is gone, too.
                biased;
                () = stop_signals.received() => (StopReason::Signal, Closing::Stop(JobsFate::Keep)),
                () = lock.displaced() => (StopReason::StateGone, Closing::Stop(JobsFate::Keep)),
                () = socket::removed(&paths.socket), if !is_inherited => {
                    (StopReason::SocketRemoved, Closing::Rebind)
                }
            };
            why.set(reason);
            closing
        };
        lastword_server::serve(bound, engine.clone(), about.clone(), stop).await;
        match why.get() {
            StopReason::SocketRemoved => {
                tracing::warn!(socket = %paths.socket.display(), "the socket was removed; creating it again")
            }
            StopReason::Requested => break,
            StopReason::Signal => {
                shut_down(engine, start, &mut stop_signals).await;
                break;
            }
            StopReason::StateGone => {
                let state = paths.state.display();
                tracing::error!(%state, "the state folder was deleted, moved or replaced; stopping, jobs keep running");
                shut_down(engine, start, &mut stop_signals).await;
                break;
            }
        }
    }
    tracing::info!("the daemon stopped");
    Ok(0)
}

/// Reports to the starter that the daemon is ready: once it has recovered its jobs, or after a timeout, because it can answer requests
/// by then. Then looks for trees that the journal does not know.
fn report_when_ready(engine: Engine<Sqlite>, starter: Starter, paths: Paths) {
    tokio::spawn(async move {
        let is_ready = tokio::time::timeout(READY_TIMEOUT, engine.ready()).await.is_ok();
        starter.report(READY);
        if !is_ready {
            return;
        }
        // A daemon must not wait for that: it looks at every process.
        let unowned = tokio::task::spawn_blocking(move || trees::unowned(&paths)).await;
        if let Ok(Ok(found)) = unowned
            && !found.is_empty()
        {
            engine.desk().report(trees::say(&found), trees::LIST);
        }
    });
}

/// Why the daemon stopped serving.
#[derive(Clone, Copy)]
enum StopReason {
    /// A client asked; the engine is already shut down.
    Requested,
    /// A signal.
    Signal,
    /// The state folder was deleted, moved or replaced.
    StateGone,
    /// The socket was removed.
    SocketRemoved,
}

/// Shuts down and leaves the jobs to the next daemon. A second stop signal meanwhile cancels them: an engine that has released its jobs
/// cannot do that, so a new one takes them over first.
async fn shut_down(
    engine: Engine<Sqlite>,
    start: impl Fn() -> Engine<Sqlite>,
    stop_signals: &mut StopSignals,
) {
    let mut done = engine.shut_down(Jobs::Keep).await;
    drop(engine);
    // Polled once: was there another signal while the engine shut down?
    let is_repeated = tokio::select! {
        biased;
        () = stop_signals.received() => true,
        () = std::future::ready(()) => false,
    };
    if is_repeated {
        tracing::info!("second stop signal: cancelling all jobs");
        let engine = start();
        engine.ready().await;
        done = engine.shut_down(Jobs::Cancel).await;
    }
    if let Err(error) = done {
        tracing::error!(%error, "the engine did not shut down cleanly; stopping anyway");
    }
}

fn start_engine(settings: &Settings, host: LocalHost, host_id: HostId, journal: Sqlite) -> Engine<Sqlite> {
    // A setting of 0 means no limit.
    let slots = u32::try_from(settings.number("slots")).ok().filter(|slots| *slots > 0);
    let options = Options {
        default_slots: slots,
        limits: Limits {
            wall_ms: settings.number_if_set("limits.wall"),
            stall_ms: settings.number_if_set("limits.stall"),
            output_bytes: settings.number_if_set("limits.output"),
            ..Limits::default()
        },
        ..Options::new(OwnerId(Arc::from("daemon")), host_id)
    };
    let behind = journal.behind();
    let engine = Engine::start(journal, host, options);
    if let Some(behind) = behind {
        let what = format!(
            "the journal has {} events and had {}: it was deleted, or an older copy was put in its place",
            behind.has, behind.had
        );
        engine.desk().report(what, "lastword doctor    # shows process trees that it does not know");
    }
    engine
}

/// Returns the socket, and whether the service manager created it and passed it on (`LISTEN_FDS`).
fn endpoint(paths: &Paths) -> Result<(Endpoint, bool), Failure> {
    let (pid, count) = (environment::get("LISTEN_PID"), environment::get("LISTEN_FDS"));
    let mut sockets = lastword_proc::listen_fds(pid.as_deref(), count.as_deref());
    if sockets.is_empty() {
        return socket::bind(paths).map(|endpoint| (endpoint, false));
    }
    let endpoint = Endpoint::from_listener(sockets.swap_remove(0).into());
    let unusable = |error| {
        Failure::new(Code::Unavailable, format!("cannot use the socket from the service manager: {error}"))
    };
    Ok((endpoint.map_err(unusable)?, true))
}

/// Reopens the log on SIGHUP, for log rotation.
fn reopen_log_on_hangup(log: Log) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match log.reopen() {
                Ok(()) => tracing::info!("the log was reopened"),
                Err(error) => tracing::error!(%error, "the log could not be reopened"),
            }
        }
    });
}

/// The signals that stop a daemon.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The process that started the daemon and waits for its report.
#[derive(Clone)]
struct Starter {
    detached: bool,
    socket: PathBuf,
}

impl Starter {
    /// Reports the outcome of the start. A detached daemon writes one line to its starter and closes the pipe. A daemon that is ready also
    /// notifies the service manager and, in the foreground, says so on stderr.
    fn report(&self, line: &str) {
        use std::io::Write as _;
        if self.detached {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            // The starter reads until the pipe closes.
            if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&null);
            }
        }
        if line == READY {
            notify_service_manager();
            if !self.detached {
                let socket = self.socket.display();
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "the daemon is listening on {socket}; Ctrl-C stops it, and jobs keep running"
                );
            }
        }
    }

    /// Reports a failure to the starter and the log, and returns it.
    fn refuse(&self, failure: Failure) -> Failure {
        tracing::error!("cannot start: {}", failure.text());
        if self.detached {
            let problem = StartProblem { problem: (*failure.problem).clone(), next: failure.next.clone() };
            self.report(&serde_json::to_string(&problem).unwrap_or_default());
        }
        failure
    }
}

/// Notifies the service manager that the daemon is ready, as `sd_notify` does. A path that begins with `@` is an abstract address.
fn notify_service_manager() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(place) = environment::get("NOTIFY_SOCKET") else { return };
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Returns the name that is recorded as the author of this user's requests.
fn user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let name = environment::get("USER").or_else(|| environment::get("LOGNAME"));
    name.or_else(|| user_name(uid)).unwrap_or_else(|| format!("user {uid}"))
}

/// Returns the name of a user.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut rows = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let row = rows.find(|row| row.get(2).is_some_and(|number| *number == uid.to_string()))?;
    Some((*row.first()?).to_owned())
}

fn host_name() -> String {
    first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "here".to_owned())
}

/// Returns the id of this machine, by which earlier versions named the host.
fn machine() -> String {
    first_line("/etc/machine-id").unwrap_or_else(host_name)
}

fn first_line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}
