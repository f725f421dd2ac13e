//! `daemon run`, `serve` and `worker`: a process from taking the lock to its last request.
//!
//! The order: settings, private folder, lock, log, nursery, journal, engine, socket. If one fails, the starter is told and nothing is
//! created in its place: an unreadable journal is not an empty one.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use lastword_api::{Code, JobsFate, VERSION};
use lastword_core::receipt::Level;
use lastword_engine::{Engine, Jobs};
use lastword_server::{About, Closing, Endpoint};
use lastword_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::log::Log;
use super::names::{host_name, user};
use super::role::Role;
use super::service::{Place, Prepared, Service, prepare};
use super::start::{READY, TAKEN};
use super::starter::Starter;
use super::{limits, ping, socket};
use crate::doctor::trees;
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::lock::Lock;
use crate::paths::Paths;

/// Threads that block on a disk or a keeper. Each costs a stack and an arena; idle ones exit.
const THREADS_MAX: usize = 16;

/// How long the starter waits at most for the daemon to recover its jobs.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a daemon, a server or a worker until it is stopped.
pub(crate) fn run<S: Service>(service: &S, paths: &Paths, flags: &[String], detached: bool) -> Outcome {
    // No core dump and no debugger: this process holds the environments of jobs, which contain secrets.
    lastword_proc::make_undumpable();
    lastword_proc::limits::remember();
    let (paths, name) = (&socket::choose_path(paths), S::ROLE.name());
    let starter = Starter { detached, name, socket: paths.socket.clone() };
    let prepared = match prepare(service, paths, flags) {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(_)) if detached => {
            starter.report(TAKEN);
            return Ok(0);
        }
        Ok(Err(holder)) => {
            let pid_note = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
            let text = format!("a {} is already running{pid_note}", Role::of(paths).name());
            return Err(Failure::new(Code::Conflict, text));
        }
        Err(failure) => return Err(starter.refuse(failure)),
    };
    // A server has many connections; the others wait for one.
    let mut builder = match S::ROLE {
        Role::Server => tokio::runtime::Builder::new_multi_thread(),
        Role::Daemon | Role::Worker => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime =
        builder.enable_all().max_blocking_threads(THREADS_MAX).build().map_err(|error| {
            starter.refuse(Failure::new(Code::Unavailable, format!("cannot start: {error}")))
        })?;
    let Prepared { place, log, mut lock } = prepared;
    let journal = match runtime.block_on(service.open(&place)) {
        Ok(journal) => journal,
        Err(failure) => {
            // Before the starter hears of it: it may ask whether a daemon has the lock.
            drop((place, lock));
            return Err(starter.refuse(failure));
        }
    };
    let outcome = runtime.block_on(serve((service, &journal), &place, log, &lock, &starter));
    // Without waiting for threads that wait for a keeper: the next daemon finds what they would have reported.
    runtime.shutdown_background();
    lock.mark_stopped();
    outcome
}

/// Serves until the daemon is told to stop, then shuts down.
async fn serve<S: Service>(
    (service, journal): (&S, &S::Journal),
    place: &Place,
    log: Log,
    lock: &Lock,
    starter: &Starter,
) -> Outcome {
    let Place { paths, host, .. } = place;
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
        fleet: service.fleet(journal),
    };
    let start = || service.start(place, journal);
    let engine = start();
    // For the first turn of the loop; a later turn binds a new socket after the old one was removed. We never bind the socket of a service
    // manager, so we do not watch it.
    let (endpoint, is_inherited) = endpoint(paths).map_err(|failure| starter.refuse(failure))?;
    let mut endpoint = Some(endpoint);
    ping::answer(&paths.socket);
    reopen_log_on_hangup(log);
    limits::watch(Arc::clone(engine.desk()));
    tracing::info!(version = VERSION, pid = std::process::id(), level = ?level, "the {} is listening", S::ROLE.name());
    report_when_ready(engine.clone(), starter.clone(), paths.clone(), S::ROLE);
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
                shut_down(engine, start, &mut stop_signals, S::ROLE).await;
                break;
            }
            StopReason::StateGone => {
                let state = paths.state.display();
                tracing::error!(%state, "the state folder was deleted, moved or replaced; stopping, jobs keep running");
                shut_down(engine, start, &mut stop_signals, S::ROLE).await;
                break;
            }
        }
    }
    tracing::info!("the {} stopped", S::ROLE.name());
    Ok(0)
}

/// Reports to the starter that the daemon is ready: once it has recovered its jobs, or after a timeout, because it can answer requests
/// by then. Then looks for trees that the journal does not know.
fn report_when_ready<J: Store>(engine: Engine<J>, starter: Starter, paths: Paths, role: Role) {
    tokio::spawn(async move {
        let is_ready = tokio::time::timeout(READY_TIMEOUT, engine.ready()).await.is_ok();
        starter.report(READY);
        // The journal of a fleet does not say which trees are on this host.
        if !is_ready || role != Role::Daemon {
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
async fn shut_down<J: Store>(
    engine: Engine<J>,
    start: impl Fn() -> Engine<J>,
    stop_signals: &mut StopSignals,
    role: Role,
) {
    let mut done = engine.shut_down(Jobs::Keep).await;
    drop(engine);
    // Polled once: was there another signal while the engine shut down?
    let is_repeated = tokio::select! {
        biased;
        () = stop_signals.received() => true,
        () = std::future::ready(()) => false,
    };
    // The jobs of a fleet are cancelled by request, not by the stop of one of its processes.
    if is_repeated && role == Role::Daemon {
        tracing::info!("second stop signal: cancelling all jobs");
        let engine = start();
        engine.ready().await;
        done = engine.shut_down(Jobs::Cancel).await;
    }
    if let Err(error) = done {
        tracing::error!(%error, "the engine did not shut down cleanly; stopping anyway");
    }
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
