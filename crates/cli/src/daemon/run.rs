//! `daemon run`: a daemon from its lock to its last request.
//!
//! In this order: settings, the private folder, the lock, the log, the nursery, the journal, the engine, the socket. Whatever cannot be
//! had is told to whoever started it, and nothing is made in its place: a journal that cannot be read is not an empty one.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_api::{Code, VERSION};
use lastword_core::limits::Limits;
use lastword_core::receipt::Level;
use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, Jobs, LocalHost, Options};
use lastword_git::{Git, Worktrees};
use lastword_proc::Nursery;
use lastword_server::{About, Endpoint};
use lastword_store::sqlite::Sqlite;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::log::Log;
use super::start::{READY, TAKEN, Told, executable};
use super::{LOG, socket};
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::lock::{Holder, Lock, Taken};
use crate::paths::{self, Paths};
use crate::settings::Settings;

/// Threads for what waits for a disk or a keeper. Each costs a stack and an arena, so few; they go when nobody needs them.
const THREADS_MAX: usize = 16;

/// How long whoever started the daemon is kept waiting for it to look at its jobs.
const READY_MAX: Duration = Duration::from_secs(10);

/// Where the folders of jobs are.
const JOBS: &str = "jobs";

/// Where the worktrees of jobs are.
const WORKTREES: &str = "worktrees";

/// Everything a daemon has before it does anything.
struct Prepared {
    settings: Settings,
    log: Log,
    host: LocalHost,
    journal: Sqlite,
    // Dropped last: whoever takes it may open all of the above.
    lock: Lock,
}

/// Runs a daemon until it is stopped.
pub(crate) fn run(paths: &Paths, flags: &[String], detached: bool) -> Outcome {
    // It holds what jobs were asked for with, their environment included.
    lastword_proc::close_to_others();
    let paths = &socket::settle(paths);
    let starter = Starter { detached, socket: paths.socket.clone() };
    let prepared = match prepare(paths, flags) {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(_)) if detached => {
            starter.tell(TAKEN);
            return Ok(0);
        }
        Ok(Err(holder)) => {
            let who = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
            return Err(Failure::new(Code::Conflict, format!("a daemon runs already{who}")));
        }
        Err(failure) => return Err(starter.refuse(failure)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .map_err(|error| starter.refuse(Failure::new(Code::Unavailable, format!("cannot start: {error}"))))?;
    let Prepared { settings, log, host, journal, mut lock } = prepared;
    let lived = runtime.block_on(live(paths, &settings, log, host, journal, &starter));
    // Threads that wait for a keeper are not waited for: what they would report, the next daemon finds.
    runtime.shutdown_background();
    lock.stopped();
    lived
}

/// Gets everything together, or says which daemon has the lock, if that is known.
fn prepare(paths: &Paths, flags: &[String]) -> Result<Result<Prepared, Option<Holder>>, Failure> {
    let flags: Vec<(String, String)> = flags.iter().map(|flag| pair(flag)).collect::<Result<_, _>>()?;
    let settings = Settings::load(&paths.config, &environment::settings(), &flags)?;
    paths::make_private(&paths.state)?;
    let lock = match Lock::take(paths)? {
        Taken::Ours(lock) => lock,
        Taken::Theirs(holder) => return Ok(Err(holder)),
    };
    let log_path = paths.in_state(LOG);
    let log = Log::open(&log_path)
        .map_err(|error| Failure::new(Code::Unavailable, format!("{}: {error}", log_path.display())))?;
    let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).with_target(false);
    // Only a test that runs two in one process could have set one before.
    let _ = tracing::subscriber::set_global_default(lines.with_max_level(settings.log_level()).finish());
    // Jobs have the limit that their user has; this process may open as many files as it likes, since each live job is one.
    let files = getrlimit(Resource::Nofile);
    let host = LocalHost::new(paths.in_state(JOBS), move || {
        let _ = setrlimit(Resource::Nofile, files);
        let nursery = nursery();
        let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
        nursery
    });
    let host = host.map_err(|error| Failure::new(Code::Unavailable, format!("cannot keep jobs: {error}")))?;
    let host = host.keeping(settings.number("output.head"), settings.number("output.tail"));
    let worktrees = Worktrees::new(Git::new(environment::all()), &paths.data.join(WORKTREES));
    // Who asks for none needs none: a job that does is told.
    let host = match worktrees {
        Ok(worktrees) => host.with_worktrees(worktrees),
        Err(error) => {
            tracing::warn!(%error, "no worktrees can be kept");
            host
        }
    };
    let journal = Sqlite::open(&paths.state).map_err(|error| unreadable(paths, &error))?;
    Ok(Ok(Prepared { settings, log, host, journal, lock }))
}

fn pair(flag: &str) -> Result<(String, String), Failure> {
    let (name, value) =
        flag.split_once('=').ok_or_else(|| Failure::usage(format!("--set {flag}: write --set KEY=VALUE")))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Starts the nursery: in a scope of the user's service manager where there is one, so that trees outlive the session and have
/// control groups; by itself otherwise.
pub(crate) fn nursery() -> Result<Nursery, lastword_proc::Error> {
    let executable = executable().map_err(|source| {
        let what = "cannot find the executable of this program".to_owned();
        lastword_proc::Error::Io { what, source }
    })?;
    let runtime_dir = environment::get_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(dir) = runtime_dir.filter(|dir| dir.join("systemd/private").exists()) {
        match Nursery::start_in_scope(&executable, &dir) {
            Ok(nursery) => return Ok(nursery),
            Err(error) => {
                tracing::warn!(%error, "no scope of the service manager; jobs are held without one")
            }
        }
    }
    Nursery::start(&executable)
}

/// Says that the journal cannot be used, and what a person can do. It is never replaced by an empty one.
fn unreadable(paths: &Paths, error: &lastword_store::Error) -> Failure {
    let state = paths.state.display();
    match error {
        lastword_store::Error::Corrupt(_) => Failure::new(Code::Corrupt, format!("{error} (in {state}); nothing was changed"))
            .next(format!("put a backup of {state}/journal.db in its place,"))
            .next("or move it away together with its -wal file: jobs are forgotten then, and those that run go on unwatched"),
        other => Failure::new(Code::Unavailable, format!("{other} (in {state})")),
    }
}

/// Serves until the daemon is told to stop, and goes as it was told.
async fn live(
    paths: &Paths,
    settings: &Settings,
    log: Log,
    host: LocalHost,
    journal: Sqlite,
    starter: &Starter,
) -> Outcome {
    let unheard =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot hear signals: {error}"));
    let mut end = Ends::new().map_err(unheard).map_err(|failure| starter.refuse(failure))?;
    let found = host.findings().into_iter().filter(|(level, test)| *level <= Level::Cgroup && test.is_ok());
    let level = found.map(|(level, _)| level).max().unwrap_or(Level::Subreaper);
    let about = About {
        user: user(),
        host: host_name(),
        state_dir: paths.state.clone(),
        level,
        agents: paths.agents(),
    };
    let start = || engine(settings, host.clone(), journal.clone());
    let engine = start();
    let mut endpoint = Some(endpoint(paths).map_err(|failure| starter.refuse(failure))?);
    let handed_over = endpoint.as_ref().is_some_and(|(_, handed_over)| *handed_over);
    reopen_on_request(log);
    tracing::info!(version = VERSION, pid = std::process::id(), level = ?level, "the daemon listens");
    tell_when_ready(engine.clone(), starter.clone());
    loop {
        let bound = match endpoint.take() {
            Some((endpoint, _)) => endpoint,
            None => socket::bind(paths)?,
        };
        let why = Cell::new(Why::Asked);
        let stop = async {
            why.set(tokio::select! {
                () = end.asked() => Why::Signal,
                () = socket::taken_away(&paths.socket), if !handed_over => Why::TakenAway,
            });
        };
        lastword_server::serve(bound, engine.clone(), about.clone(), stop).await;
        match why.get() {
            Why::TakenAway => {
                tracing::warn!(socket = %paths.socket.display(), "the socket was taken away, and is made again")
            }
            Why::Asked => break,
            Why::Signal => {
                shut_down(engine, start, &mut end).await;
                break;
            }
        }
    }
    tracing::info!("the daemon is gone");
    Ok(0)
}

/// Tells whoever started the daemon that it answers: as soon as it has found out what became of its jobs, or after a while anyway,
/// because it can say then what it is doing.
fn tell_when_ready(engine: Engine<Sqlite>, starter: Starter) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(READY_MAX, engine.ready()).await;
        drop(engine);
        starter.tell(READY);
    });
}

/// Why the daemon stopped serving.
#[derive(Clone, Copy)]
enum Why {
    /// A client asked, and the engine is shut down already.
    Asked,
    /// A signal asked.
    Signal,
    /// Nobody asked: its socket is gone.
    TakenAway,
}

/// Goes and leaves the jobs to the next daemon. Asked again meanwhile, it takes them along: an engine that has let go of its jobs
/// cannot, so another takes them over first.
async fn shut_down(engine: Engine<Sqlite>, start: impl Fn() -> Engine<Sqlite>, end: &mut Ends) {
    let mut done = engine.shut_down(Jobs::Keep).await;
    drop(engine);
    let again = tokio::select! {
        biased;
        () = end.asked() => true,
        () = std::future::ready(()) => false,
    };
    if again {
        tracing::info!("asked twice to stop: jobs are cancelled");
        let engine = start();
        engine.ready().await;
        done = engine.shut_down(Jobs::Cancel).await;
    }
    if let Err(error) = done {
        tracing::error!(%error, "the engine could not shut down in order; the daemon goes all the same");
    }
}

fn engine(settings: &Settings, host: LocalHost, journal: Sqlite) -> Engine<Sqlite> {
    let slots = u32::try_from(settings.number("slots")).ok().filter(|slots| *slots > 0);
    let options = Options {
        default_slots: slots,
        limits: Limits {
            wall_ms: settings.chosen("limits.wall"),
            stall_ms: settings.chosen("limits.stall"),
            output_bytes: settings.chosen("limits.output"),
            ..Limits::default()
        },
        ..Options::new(OwnerId(Arc::from("daemon")), HostId(Arc::from(machine())))
    };
    Engine::start(journal, host, options)
}

/// Returns the socket, and whether a service manager made it.
fn endpoint(paths: &Paths) -> Result<(Endpoint, bool), Failure> {
    let (pid, count) = (environment::get("LISTEN_PID"), environment::get("LISTEN_FDS"));
    let mut handed_over = lastword_proc::handed_over(pid.as_deref(), count.as_deref());
    if handed_over.is_empty() {
        return socket::bind(paths).map(|endpoint| (endpoint, false));
    }
    let endpoint = Endpoint::from_listener(handed_over.swap_remove(0).into());
    let unusable = |error| {
        Failure::new(Code::Unavailable, format!("the socket that was handed over cannot be used: {error}"))
    };
    Ok((endpoint.map_err(unusable)?, true))
}

/// Opens the log anew whenever somebody asks.
fn reopen_on_request(log: Log) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            match log.reopen() {
                Ok(()) => tracing::info!("the log was reopened"),
                Err(error) => tracing::error!(%error, "the log could not be reopened"),
            }
        }
    });
}

/// The signals that ask a daemon to stop.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> std::io::Result<Ends> {
        Ok(Ends { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whoever started the daemon, and hears whether it could.
#[derive(Clone)]
struct Starter {
    detached: bool,
    socket: PathBuf,
}

impl Starter {
    /// Says one line, and nothing after it.
    fn tell(&self, line: &str) {
        use std::io::Write as _;
        if self.detached {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            // Whoever started it waits for the end of this pipe.
            if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&null);
            }
        }
        if line == READY {
            notify_manager();
            if !self.detached {
                let socket = self.socket.display();
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "the daemon listens at {socket}; Ctrl-C stops it, and jobs go on"
                );
            }
        }
    }

    /// Passes a failure on to whoever started it, and to the log.
    fn refuse(&self, failure: Failure) -> Failure {
        tracing::error!("cannot start: {}", failure.words());
        if self.detached {
            let told = Told { problem: (*failure.problem).clone(), next: failure.next.clone() };
            self.tell(&serde_json::to_string(&told).unwrap_or_default());
        }
        failure
    }
}

/// Tells the service manager that the daemon is ready, if one started it.
fn notify_manager() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(place) = environment::get("NOTIFY_SOCKET") else { return };
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address));
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager could not be told that the daemon is ready");
    }
}

fn user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let said = environment::get("USER").or_else(|| environment::get("LOGNAME"));
    said.or_else(|| user_name(uid)).unwrap_or_else(|| format!("user {uid}"))
}

/// Returns the name that this machine has for a user.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut rows = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let row = rows.find(|row| row.get(2).is_some_and(|number| *number == uid.to_string()))?;
    Some((*row.first()?).to_owned())
}

fn host_name() -> String {
    line_of("/proc/sys/kernel/hostname").unwrap_or_else(|| "here".to_owned())
}

/// Returns what this machine is called for good: its name may change with the network it is in.
fn machine() -> String {
    line_of("/etc/machine-id").unwrap_or_else(host_name)
}

fn line_of(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}
