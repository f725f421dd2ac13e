//! The lock that makes a process the daemon of a state folder. The file's content only helps people and clients to find the holder; the
//! lock itself decides, and is released when its process dies.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_api::{Code, VERSION};
use lastword_proc::Identity;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::in_force::InForce;
use crate::paths::Paths;

/// The name of the file in the state folder.
const FILE: &str = "daemon.lock";

/// The lock. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    socket: PathBuf,
    settings: Vec<InForce>,
}

/// How often the holder looks whether the lock is still in its place.
const LOOK: Duration = Duration::from_secs(1);

/// What the holder of the lock wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    start_ticks: u64,
    /// Identifies the daemon even where `/proc` hides it.
    #[serde(default)]
    inode: Option<u64>,
    boot: String,
    pub(crate) version: String,
    /// Whether it stopped normally; clients do not start another one in its place then.
    #[serde(default)]
    pub(crate) stopped: bool,
    /// Where it listens: processes that share a state folder may differ in the default path of the socket.
    #[serde(default)]
    pub(crate) socket: Option<PathBuf>,
    /// The settings it was started with; none if it is of version 0.1.0.
    #[serde(default)]
    settings: Vec<InForce>,
}

/// The result of trying to take the lock.
#[derive(Debug)]
pub(crate) enum Attempt {
    Acquired(Lock),
    /// Another process has the lock; `None` if it has not written its identity yet.
    Held(Option<Holder>),
}

impl Lock {
    /// Takes the lock of a state folder for a daemon with these settings, or returns its holder.
    pub(crate) fn take(paths: &Paths, settings: Vec<InForce>) -> Result<Attempt, Failure> {
        let path = paths.in_state(FILE);
        let failed = |error: std::io::Error| {
            Failure::new(Code::Unavailable, format!("{}: {error}", path.display()))
                .next("make the state folder writable, or choose another with LASTWORD_HOME")
        };
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                // `is_held` takes a shared lock for a moment; that is not a daemon.
                #[expect(clippy::disallowed_methods, reason = "a shared lock is released without notice")]
                Err(rustix::io::Errno::WOULDBLOCK) if is_shared(&file) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Attempt::Held(read(&path))),
                Err(error) => return Err(failed(error.into())),
            }
        }
        let mut lock = Lock { file, path: path.clone(), socket: paths.socket.clone(), settings };
        lock.write(false).map_err(failed)?;
        Ok(Attempt::Acquired(lock))
    }

    /// Waits until the lock is not in its place any more: the state folder was deleted, moved or replaced, and another daemon can take the
    /// lock there.
    pub(crate) async fn displaced(&self) {
        while self.is_in_place() {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn is_in_place(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }

    /// Records that the holder is stopping normally.
    pub(crate) fn mark_stopped(&mut self) {
        // Best effort: without it, a waiting client starts another daemon, which is harmless. If the folder is elsewhere now, it should.
        if self.is_in_place() {
            let _ = self.write(true);
        }
    }

    fn write(&mut self, stopped: bool) -> std::io::Result<()> {
        use std::io::Seek as _;
        let me = Identity::own()?;
        let holder = Holder {
            pid: me.pid,
            start_ticks: me.start_ticks,
            inode: me.inode,
            boot: me.boot,
            version: VERSION.to_owned(),
            stopped,
            socket: Some(self.socket.clone()),
            settings: self.settings.clone(),
        };
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(serde_json::to_string(&holder).map_err(std::io::Error::from)?.as_bytes())
    }
}

impl Holder {
    /// Returns what the last daemon of a state folder wrote, whether it is alive or not.
    pub(crate) fn of(paths: &Paths) -> Option<Holder> {
        read(&paths.in_state(FILE))
    }

    /// Returns the process identity of the holder.
    pub(crate) fn identity(&self) -> Identity {
        Identity { boot: self.boot.clone(), pid: self.pid, start_ticks: self.start_ticks, inode: self.inode }
    }
}

/// Returns the settings that the running daemon was started with; none if there is no daemon.
pub(crate) fn settings_in_force(paths: &Paths) -> Vec<InForce> {
    let holder = is_held(paths).then(|| Holder::of(paths)).flatten();
    holder.map_or_else(Vec::new, |holder| holder.settings)
}

/// Reports whether a daemon holds the lock of a state folder.
pub(crate) fn is_held(paths: &Paths) -> bool {
    let Ok(file) = File::open(paths.in_state(FILE)) else { return false };
    !is_shared(&file)
}

/// Reports whether the listener at the other end is the daemon of another state folder, which would show that folder's jobs as ours.
pub(crate) fn belongs_to_another(paths: &Paths, stream: impl AsFd) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    let pid = peer.pid.as_raw_nonzero().get();
    // A daemon writes its lock before it listens. Any other program is the service manager, or is detected later.
    let is_ours = || Holder::of(paths).is_some_and(|holder| holder.pid == pid);
    !is_ours() && lastword_proc::is_same_program(pid)
}

/// Reports whether no process holds the lock exclusively, by taking a shared lock for a moment.
fn is_shared(file: &File) -> bool {
    let shared = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared);
    if shared.is_ok() {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    shared != Err(rustix::io::Errno::WOULDBLOCK)
}

fn read(path: &Path) -> Option<Holder> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(paths: &Paths) -> Result<Attempt, Failure> {
        Lock::take(paths, Vec::new())
    }

    #[test]
    fn a_check_is_not_taken_for_a_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        let paths = Paths { socket: state.join("s"), config: state.join("c"), data: state.clone(), state };
        let looking = std::sync::atomic::AtomicBool::new(true);
        let taken = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while looking.load(std::sync::atomic::Ordering::Relaxed) {
                        is_held(&paths);
                    }
                });
            }
            let taken = (0..2_000).all(|_| matches!(take(&paths), Ok(Attempt::Acquired(_))));
            looking.store(false, std::sync::atomic::Ordering::Relaxed);
            taken
        });
        assert!(taken, "no daemon holds it");
    }

    #[test]
    fn the_lock_has_one_holder_who_is_known_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        let paths = Paths { socket: state.join("s"), config: state.join("c"), data: state.clone(), state };
        assert!(!is_held(&paths));
        let Ok(Attempt::Acquired(mut lock)) = take(&paths) else { panic!("it is free") };
        assert!(is_held(&paths));
        let Ok(Attempt::Held(Some(holder))) = take(&paths) else { panic!("it is taken") };
        assert_eq!(holder.pid, std::process::id() as i32);
        assert!(holder.identity().is_alive() && !holder.stopped);
        lock.mark_stopped();
        drop(lock);
        assert!(!is_held(&paths) && Holder::of(&paths).is_some_and(|holder| holder.stopped));
        assert!(matches!(take(&paths), Ok(Attempt::Acquired(_))), "it is free again");
    }
}
