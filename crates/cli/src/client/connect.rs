//! Reaches the daemon: finds its socket, checks that the listener is a process of this user, and starts a daemon if there is none.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use lastword_api::Code;
use lastword_client::{Connect, Io, Pending};
use tokio::net::UnixStream;

use crate::daemon::role::Role;
use crate::daemon::{ping, start};
use crate::environment;
use crate::failure::Failure;
use crate::lock::{self, Holder};
use crate::paths::{self, Paths};

/// How long a daemon that has the lock may take until it listens. One whose socket was removed notices within a second.
const LISTEN_MAX: Duration = Duration::from_secs(15);

/// How long a client that was connected waits for the next daemon, after the last one was stopped on purpose.
const RESTART_MAX: Duration = Duration::from_secs(5);

/// How long it waits for a server that went away. No command starts one, but what supervises it does.
const SERVER_MAX: Duration = Duration::from_secs(15);

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);

/// The daemon of a state folder of this machine. It is started if there is none.
pub(super) struct LocalDaemon {
    pub(super) paths: Paths,
}

impl Connect for LocalDaemon {
    fn connect(&self, again: bool) -> Pending<'_, Box<dyn Io>> {
        Box::pin(async move { Ok(Box::new(connect(&self.paths, again).await?) as Box<dyn Io>) })
    }

    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>> {
        Box::pin(async move {
            let stream = reach(&self.paths).await?;
            Ok(stream.map(|stream| Box::new(stream) as Box<dyn Io>))
        })
    }

    fn end_frozen(&self) -> Pending<'_, bool> {
        // Only what may start the next one may end it.
        Box::pin(async move { Ok(may_start(&self.paths).is_ok() && ping::kill_frozen(&self.paths).await) })
    }
}

/// Connects to the daemon, and starts one if there is none. A client that was connected before does not start another when the
/// last one was stopped on purpose. A server is never started, only waited for.
async fn connect(paths: &Paths, again: bool) -> Result<UnixStream, Failure> {
    let begin = Instant::now();
    loop {
        if let Some(stream) = reach(paths).await? {
            return Ok(stream);
        }
        let holder = Holder::of(paths);
        let was_stopped = again && holder.as_ref().is_some_and(|holder| holder.stopped);
        let role = Role::of(paths);
        let (comes_back, patience) = match role {
            Role::Daemon => (was_stopped, RESTART_MAX),
            Role::Server | Role::Worker => (again, SERVER_MAX),
        };
        if comes_back && begin.elapsed() > patience {
            return Err(went_away(role, was_stopped));
        }
        if begin.elapsed() > LISTEN_MAX {
            let pid_note = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
            let socket = paths.socket.display();
            let text = format!("the daemon{pid_note} is running but does not listen at {socket}");
            let failure = Failure::new(Code::Unavailable, text);
            return Err(failure.next("lastword daemon restart    # jobs keep running"));
        }
        // Checked each time: a daemon that was killed keeps its lock a moment longer than its socket.
        if !comes_back && !lock::is_held(paths) {
            may_start(paths)?;
            start::start(paths, &start::StartOptions::default()).await?;
            continue;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the failure of a client whose daemon did not come back.
fn went_away(role: Role, was_stopped: bool) -> Failure {
    let (name, start) = (role.name(), role.start());
    let text = match was_stopped {
        true => format!("the {name} was stopped; jobs keep running without it"),
        false => format!("the {name} went away; jobs keep running without it"),
    };
    Failure::new(Code::Unavailable, text).next(format!("{start}    # then repeat the command"))
}

/// Reports whether a daemon listens.
pub(crate) async fn is_reached(paths: &Paths) -> Result<bool, Failure> {
    Ok(reach(paths).await?.is_some())
}

/// Connects to the daemon of this state folder, at our default path or else at the path in the lock file; `None` if none listens. The two
/// differ if the daemon was started in another environment: a cron job has no `XDG_RUNTIME_DIR`, and `TMPDIR` may be set to anything.
pub(crate) async fn reach(paths: &Paths) -> Result<Option<UnixStream>, Failure> {
    let ours = |stream: &UnixStream| !lock::belongs_to_another(paths, stream);
    if let Some(stream) = reach_at(&paths.socket).await?.filter(ours) {
        return Ok(Some(stream));
    }
    match Holder::of(paths).and_then(|holder| holder.socket).filter(|socket| *socket != paths.socket) {
        Some(socket) => Ok(reach_at(&socket).await?.filter(ours)),
        None => Ok(None),
    }
}

/// Connects to a socket; `None` if no process listens there. Refuses a listener of another user before anything is sent to it.
async fn reach_at(socket: &Path) -> Result<Option<UnixStream>, Failure> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let socket = socket.display();
    // Through the folder's descriptor: a socket address holds about a hundred bytes, and the path of a home may be longer.
    let folder = match lastword_proc::Folder::open(dir) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            // A folder that is not private gets an error of its own, with the fix.
            paths::check_private(dir)?;
            return Err(Failure::new(Code::Forbidden, format!("{}: {error}", dir.display())));
        }
    };
    let stream = match UnixStream::connect(folder.path_of(&name)).await {
        Ok(stream) => stream,
        Err(error) if is_unused(error.kind()) => return Ok(None),
        Err(error) => return Err(Failure::new(Code::Unavailable, format!("{socket}: {error}"))),
    };
    let peer =
        stream.peer_cred().map_err(|error| Failure::new(Code::Forbidden, format!("{socket}: {error}")))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        let text = format!("{socket} is served by user {}, not by you: nothing was sent to it", peer.uid());
        return Err(Failure::new(Code::Forbidden, text).next("set LASTWORD_HOME to a folder of your own"));
    }
    Ok(Some(stream))
}

/// Reports whether an error means that no daemon of ours listens: there is no socket, its listener is gone or exited before it accepted
/// us, or we may not connect to it, so it is not our daemon's.
fn is_unused(error: ErrorKind) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, PermissionDenied};
    matches!(error, NotFound | ConnectionRefused | ConnectionReset | PermissionDenied)
}

/// Checks whether a command may start the daemon; the error says why not.
fn may_start(paths: &Paths) -> Result<(), Failure> {
    let role = Role::of(paths);
    if role != Role::Daemon {
        let text = format!("the {} of {} is not running", role.name(), paths.state.display());
        return Err(Failure::new(Code::Unavailable, text).next(format!("{}    # starts it", role.start())));
    }
    if let Some(job) = inside_a_job() {
        let text = format!(
            "no daemon is running, and none is started from inside a job ({job}): it would end with the job"
        );
        return Err(Failure::new(Code::InsideAJob, text).next("start one outside: lastword daemon start"));
    }
    if environment::is_set("LASTWORD_NO_AUTOSTART") {
        let text = "no daemon is running, and LASTWORD_NO_AUTOSTART prevents starting one";
        return Err(Failure::new(Code::Unavailable, text).next("lastword daemon start"));
    }
    Ok(())
}

/// Returns the job that this process runs in, from the environment. If the job removed that and only a keeper among the ancestors shows it,
/// returns a sentence that says so.
pub(crate) fn inside_a_job() -> Option<String> {
    let id = environment::get("LASTWORD_JOB_ID").or_else(|| environment::get(lastword_proc::MARKER));
    id.or_else(|| {
        lastword_proc::is_below_keeper(std::process::id().cast_signed())
            .then(|| "one of its keepers is an ancestor of this process".to_owned())
    })
}
