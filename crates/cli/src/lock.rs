//! Who is the daemon of a state folder: whoever holds the lock on this file. What is written in it is only for people and
//! for those who must find the holder; the lock itself is what counts, and it goes with its process.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_api::{Code, VERSION};
use lastword_proc::Identity;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::paths::Paths;

/// The name of the file in the state folder.
const FILE: &str = "daemon.lock";

/// The lock. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    socket: PathBuf,
}

/// What the holder wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    start_ticks: u64,
    /// By it a daemon is known also where `/proc` hides it.
    #[serde(default)]
    inode: Option<u64>,
    boot: String,
    pub(crate) version: String,
    /// Whether it went in order: then nobody starts another in its place unasked.
    #[serde(default)]
    pub(crate) stopped: bool,
    /// Where it listens: not everybody who shares its folder was told the same place.
    #[serde(default)]
    pub(crate) socket: Option<PathBuf>,
}

/// What came of taking the lock.
#[derive(Debug)]
pub(crate) enum Taken {
    Ours(Lock),
    /// Somebody has it, who may not have written down yet who it is.
    Theirs(Option<Holder>),
}

impl Lock {
    /// Takes the lock of a state folder, or tells who has it.
    pub(crate) fn take(paths: &Paths) -> Result<Taken, Failure> {
        let path = paths.in_state(FILE);
        let failed = |error: std::io::Error| {
            Failure::new(Code::Unavailable, format!("{}: {error}", path.display()))
                .next("the state folder must be writable; LASTWORD_HOME chooses another")
        };
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                // Whoever only looks holds a share of it for a moment, and must not be taken for a daemon.
                #[expect(clippy::disallowed_methods, reason = "nobody says when a share is given back")]
                Err(rustix::io::Errno::WOULDBLOCK) if is_shared(&file) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Taken::Theirs(read(&path))),
                Err(error) => return Err(failed(error.into())),
            }
        }
        let mut lock = Lock { file, socket: paths.socket.clone() };
        lock.write(false).map_err(failed)?;
        Ok(Taken::Ours(lock))
    }

    /// Notes that its holder goes in order.
    pub(crate) fn stopped(&mut self) {
        // Only a courtesy to those who wait: without it they start another daemon, which is no harm.
        let _ = self.write(true);
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
        };
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(serde_json::to_string(&holder).map_err(std::io::Error::from)?.as_bytes())
    }
}

impl Holder {
    /// Returns what the last daemon of a state folder wrote, whether it lives or not.
    pub(crate) fn of(paths: &Paths) -> Option<Holder> {
        read(&paths.in_state(FILE))
    }

    /// Returns who it is, for good.
    pub(crate) fn identity(&self) -> Identity {
        Identity { boot: self.boot.clone(), pid: self.pid, start_ticks: self.start_ticks, inode: self.inode }
    }
}

/// Reports whether somebody holds the lock of a state folder.
pub(crate) fn is_held(paths: &Paths) -> bool {
    let Ok(file) = File::open(paths.in_state(FILE)) else { return false };
    !is_shared(&file)
}

/// Reports whether who listens at the other end is the daemon of another state folder, which came first to a place that both
/// were told. It would show that folder's jobs as ours.
pub(crate) fn is_of_another(paths: &Paths, stream: impl AsFd) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    let pid = peer.pid.as_raw_nonzero().get();
    // A daemon writes into its lock before it listens. Who is no daemon at all is the service manager, or is found out later.
    let is_ours = || Holder::of(paths).is_some_and(|holder| holder.pid == pid);
    !is_ours() && lastword_proc::is_same_program(pid)
}

/// Reports whether nobody holds the lock for itself, by taking a share of it for a moment.
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

    #[test]
    fn whoever_only_looks_is_not_taken_for_a_daemon() {
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
            let taken = (0..2_000).all(|_| matches!(Lock::take(&paths), Ok(Taken::Ours(_))));
            looking.store(false, std::sync::atomic::Ordering::Relaxed);
            taken
        });
        assert!(taken, "nobody has it");
    }

    #[test]
    fn one_has_it_and_the_other_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        let paths = Paths { socket: state.join("s"), config: state.join("c"), data: state.clone(), state };
        assert!(!is_held(&paths));
        let Ok(Taken::Ours(mut lock)) = Lock::take(&paths) else { panic!("it is free") };
        assert!(is_held(&paths));
        let Ok(Taken::Theirs(Some(holder))) = Lock::take(&paths) else { panic!("it is taken") };
        assert_eq!(holder.pid, std::process::id() as i32);
        assert!(holder.identity().is_alive() && !holder.stopped);
        lock.stopped();
        drop(lock);
        assert!(!is_held(&paths) && Holder::of(&paths).is_some_and(|holder| holder.stopped));
        assert!(matches!(Lock::take(&paths), Ok(Taken::Ours(_))), "it is free again");
    }
}
