//! Reaching the daemon: its socket, who answers there, and starting one if there is none.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use lastword_api::Code;
use lastword_client::{Connect, Io, Pending};
use tokio::net::UnixStream;

use crate::daemon::start;
use crate::environment;
use crate::failure::Failure;
use crate::lock::{self, Holder};
use crate::paths::{self, Paths};

/// How long a daemon that has the lock may take until it listens: it looks at its socket every second.
const LISTEN_MAX: Duration = Duration::from_secs(15);

/// How long somebody who was connected waits for the next daemon after one that stopped in order.
const RESTART_MAX: Duration = Duration::from_secs(5);

/// Pause between two looks.
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
}

/// Connects to the daemon, and starts one if there is none. A client that was connected before does not start another when the
/// last one was stopped on purpose.
async fn connect(paths: &Paths, again: bool) -> Result<UnixStream, Failure> {
    let begin = Instant::now();
    loop {
        if let Some(stream) = reach(paths).await? {
            return Ok(stream);
        }
        let holder = Holder::of(paths);
        let was_stopped = again && holder.as_ref().is_some_and(|holder| holder.stopped);
        if was_stopped && begin.elapsed() > RESTART_MAX {
            let text = "the daemon was stopped; jobs go on without it";
            return Err(
                Failure::new(Code::Unavailable, text).next("lastword daemon start    # then ask again")
            );
        }
        if begin.elapsed() > LISTEN_MAX {
            let who = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
            let text = format!("a daemon{who} runs, and does not listen at {}", paths.socket.display());
            let failure = Failure::new(Code::Unavailable, text);
            return Err(failure.next("lastword daemon restart    # jobs go on meanwhile"));
        }
        // Asked each time: one that was killed holds its lock a moment longer than its socket.
        if !was_stopped && !lock::is_held(paths) {
            may_start()?;
            start::start(paths, &start::StartOptions::default()).await?;
            continue;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reports whether a daemon listens.
pub(crate) async fn is_reached(paths: &Paths) -> Result<bool, Failure> {
    Ok(reach(paths).await?.is_some())
}

/// Connects to the daemon of this state folder: where it should listen, or else where it says that it does. Whoever shares the
/// folder may have been told another place: a job of cron has no `XDG_RUNTIME_DIR`, and `TMPDIR` is anybody's choice.
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

/// Connects if somebody listens at a place, and makes sure that it is this user before anything is said.
async fn reach_at(socket: &Path) -> Result<Option<UnixStream>, Failure> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let socket = socket.display();
    // Through the folder's descriptor: the path of a socket has a hundred bytes, that of a home may have more.
    let folder = match lastword_proc::Folder::open(dir) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            // Says what is wrong with it and how to mend it, if that is all.
            paths::check_private(dir)?;
            return Err(Failure::new(Code::Forbidden, format!("{}: {error}", dir.display())));
        }
    };
    let stream = match UnixStream::connect(folder.path_of(&name)).await {
        Ok(stream) => stream,
        Err(error) if is_nobody(error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(Failure::new(Code::Unavailable, format!("{socket}: {error}"))),
    };
    let peer =
        stream.peer_cred().map_err(|error| Failure::new(Code::Forbidden, format!("{socket}: {error}")))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        let text = format!("{socket} is answered by user {}, not by you: nothing was said to it", peer.uid());
        return Err(Failure::new(Code::Forbidden, text).next("set LASTWORD_HOME to a folder of your own"));
    }
    Ok(Some(stream))
}

/// Reports whether nobody listens: there is no socket, it has no owner any more, or that one went while we were in its queue; or what
/// lies in our own folder is not for us, so that it is no daemon of ours.
fn is_nobody(error: ErrorKind) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, PermissionDenied};
    matches!(error, NotFound | ConnectionRefused | ConnectionReset | PermissionDenied)
}

/// Says why no daemon may be started by itself.
pub(crate) fn may_start() -> Result<(), Failure> {
    if let Some(job) = inside_a_job() {
        let text = format!(
            "no daemon runs, and none is started from inside a job ({job}): it would end with the job"
        );
        return Err(Failure::new(Code::InsideAJob, text).next("start one outside: lastword daemon start"));
    }
    if environment::is_set("LASTWORD_NO_AUTOSTART") {
        let text = "no daemon runs, and LASTWORD_NO_AUTOSTART forbids to start one";
        return Err(Failure::new(Code::Unavailable, text).next("lastword daemon start"));
    }
    Ok(())
}

/// Returns the job this process belongs to, by its environment or by who started it.
pub(crate) fn inside_a_job() -> Option<String> {
    let said = environment::get("LASTWORD_JOB_ID").or_else(|| environment::get(lastword_proc::MARKER));
    said.or_else(|| {
        lastword_proc::is_below_keeper()
            .then(|| "one of its keepers is an ancestor of this process".to_owned())
    })
}
