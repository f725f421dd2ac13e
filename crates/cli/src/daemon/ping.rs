//! Whether a daemon is frozen: a thread of its own answers on a socket of its own, whatever disk and journal do. A process that is stopped does
//! not.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lastword_proc::Folder;
use tokio::io::AsyncReadExt as _;

use crate::lock::Holder;
use crate::paths::Paths;

/// How long a daemon must have been silent to be called frozen.
const FROZEN_AFTER: Duration = Duration::from_secs(5);

/// Questions that must stay unanswered: on a machine that is overloaded, a single one may use up the time.
const QUESTIONS_MIN: u32 = 5;

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// What it answers.
const ALIVE: &[u8] = b"alive\n";

/// Answers from now on. Without it, this daemon is never called frozen.
pub(super) fn answer(socket: &Path) {
    let path = path_of(socket);
    let listening = bind(&path).and_then(|listener| {
        let thread = std::thread::Builder::new().name("ping".to_owned());
        thread.spawn(move || listener.incoming().for_each(answer_one))
    });
    if let Err(error) = listening {
        tracing::warn!(%error, path = %path.display(), "a frozen daemon would not be noticed");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread of its own, and nothing tells when descriptors are free again"
)]
fn answer_one(peer: std::io::Result<UnixStream>) {
    match peer {
        // One that does not read has room for it in its buffer, or is gone.
        Ok(mut peer) => drop(peer.write_all(ALIVE)),
        // Out of descriptors: the next one would fail at once.
        Err(_) => std::thread::sleep(PAUSE),
    }
}

fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let folder = Folder::open(path.parent().unwrap_or(Path::new("/")))?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Through the folder's descriptor: a socket address holds about a hundred bytes.
    let listener = UnixListener::bind(folder.path_of(&name_of(path)))?;
    // In the foreground the umask is that of a shell.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn path_of(socket: &Path) -> PathBuf {
    socket.with_extension("ping")
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Kills the daemon of a state folder if it is frozen. Reports whether it was.
pub(crate) async fn kill_frozen(paths: &Paths) -> bool {
    let Some(holder) = Holder::of(paths).filter(|holder| !holder.stopped) else { return false };
    let Some(socket) = &holder.socket else { return false };
    let (began, mut asked) = (Instant::now(), 0);
    while began.elapsed() < FROZEN_AFTER || asked < QUESTIONS_MIN {
        asked += 1;
        if !is_silent(&path_of(socket)).await {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    holder.identity().signal(rustix::process::Signal::KILL).unwrap_or(false)
}

/// Reports whether a daemon has this socket and does not answer on it.
async fn is_silent(path: &Path) -> bool {
    let ask = async {
        let folder = Folder::open(path.parent().unwrap_or(Path::new("/"))).ok()?;
        let mut stream = tokio::net::UnixStream::connect(folder.path_of(&name_of(path))).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()
    };
    // An error is an answer as well: the socket of a daemon of 0.1.0, or of one that exited, is not there.
    tokio::time::timeout(ANSWER_MAX, ask).await.is_err()
}
