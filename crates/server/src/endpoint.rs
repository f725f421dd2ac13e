//! The unix socket, which only the user can reach, and the processes that connect to it.
//!
//! The caller holds the lock of the state directory, so anything at the path is left over from an earlier daemon. It is replaced atomically.
//! The directory must be private, since not every system enforces the mode of a socket.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lastword_proc::Peer;
use lastword_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

use crate::app::App;
use crate::principal::{Identify, Principal, Rights, Unidentified};

/// Longest path of a socket address, in bytes, without the terminating zero.
const PATH_BYTES_MAX: usize = 107;

/// The name of a socket before it is renamed to its path. One name is enough: only the holder of the lock binds.
const NEW: &str = ".new";

/// Why the socket could not be created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path does not fit into a socket address.
    #[error(
        "the path of the socket is {} bytes long and may be at most {PATH_BYTES_MAX}: {}; set LASTWORD_HOME or XDG_RUNTIME_DIR to a shorter path",
        path.as_os_str().len(), path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Other users could reach or replace the socket.
    #[error("{} {what}; the directory of the socket must be private: {remedy}", dir.display())]
    NotPrivate {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// What to do about it.
        remedy: String,
    },
    /// A directory is in the way.
    #[error("{} is a directory, but the socket must be there: move it away", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What failed.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A listening socket.
#[derive(Debug)]
pub struct Endpoint {
    listener: UnixListener,
    /// Its path and identity; `None` if it was created elsewhere.
    place: Option<(PathBuf, FileId)>,
}

/// The device and inode of a file.
type FileId = (u64, u64);

impl Endpoint {
    /// Creates the socket, and its directory if needed. Replaces what an earlier daemon left there, so the caller must hold the daemon's
    /// lock. Must be called within a runtime.
    pub fn bind(path: &Path) -> Result<Endpoint, BindError> {
        let io = |what, path: &Path| {
            let path = path.to_owned();
            move |source| BindError::Io { what, path, source }
        };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = dir.join(NEW);
        if let Some(path) = [path, &new].into_iter().find(|path| path.as_os_str().len() > PATH_BYTES_MAX) {
            return Err(BindError::TooLong { path: path.to_owned() });
        }
        make_private(dir)?;
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io("cannot replace", &new)(error));
            }
            _ => {}
        }
        let listener = StdListener::bind(&new).map_err(io("cannot create the socket", &new))?;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&new, mode).map_err(io("cannot protect the socket", &new))?;
        let id = file_id(&new).map_err(io("cannot inspect the socket", &new))?;
        std::fs::rename(&new, path).map_err(|source| match source.kind() {
            io::ErrorKind::IsADirectory => BindError::InTheWay { path: path.to_owned() },
            _ => io("cannot move the socket to", path)(source),
        })?;
        let listener = listen(listener).map_err(io("cannot listen on", path))?;
        Ok(Endpoint { listener, place: Some((path.to_owned(), id)) })
    }

    /// Wraps a socket that was created elsewhere, for example by the service manager. It is not removed.
    pub fn from_listener(listener: StdListener) -> io::Result<Endpoint> {
        Ok(Endpoint { listener: listen(listener)?, place: None })
    }

    /// Waits for the next connection.
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        self.listener.accept().await.map(|(stream, _)| Accepted(stream))
    }

    /// Removes the socket, unless another has taken its place.
    pub(crate) fn remove(self) {
        let Some((path, id)) = &self.place else { return };
        if file_id(path).is_ok_and(|now| now == *id)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the socket; the next daemon replaces it");
        }
    }
}

/// A connection that was accepted.
pub(crate) struct Accepted(UnixStream);

impl Accepted {
    /// Returns the stream.
    pub(crate) fn into_stream(self) -> impl AsyncRead + AsyncWrite + Unpin + Send {
        self.0
    }

    /// Returns the stream and the process at its other end; `None` if the kernel does not report it.
    pub(crate) fn identify(self) -> Option<(impl AsyncRead + AsyncWrite + Unpin + Send, UnixPeer)> {
        let peer = Peer::of(&self.0).ok()?;
        Some((self.0, UnixPeer { peer, rights: OnceLock::new() }))
    }
}

/// The process at the other end of a connection. It does not change, so its rights are determined once.
#[derive(Debug)]
pub(crate) struct UnixPeer {
    peer: Peer,
    rights: OnceLock<Rights>,
}

impl<J: Store> Identify<J> for UnixPeer {
    /// Reports whether it belongs to the daemon's user. Other users are refused, including root, which can become the user.
    fn is_admitted(&self) -> bool {
        self.peer.uid == rustix::process::geteuid().as_raw()
    }

    fn is_outside_jobs(&self) -> bool {
        // If it is still alive, its pid was not reused meanwhile.
        !lastword_proc::is_below_keeper(self.peer.pid) && self.peer.is_alive()
    }

    fn principal(&self, app: &App<J>) -> Result<Principal, Unidentified> {
        let rights = match self.rights.get() {
            Some(rights) => *rights,
            None => {
                let found = self.find_rights(app)?;
                *self.rights.get_or_init(|| found)
            }
        };
        Ok(match rights {
            Rights::All => Principal::new(app.about().user.as_str(), rights),
            Rights::Job(job) => Principal::new(job.to_string(), rights),
        })
    }
}

impl UnixPeer {
    fn find_rights<J: Store>(&self, app: &App<J>) -> Result<Rights, Unidentified> {
        // Read before the job is looked up: a launch that is reported in between makes the job known.
        let Some(ancestors) = lastword_proc::ancestors(self.peer.pid) else { return Err(Unidentified::Gone) };
        let me = std::process::id().cast_signed();
        let is_below_us = ancestors.iter().skip(1).any(|(pid, _)| *pid == me);
        let holder = app.engine().holder_of(&ancestors);
        // If it is still alive, its pid was not reused meanwhile.
        if !self.peer.is_alive() {
            return Err(Unidentified::Gone);
        }
        match holder {
            None if is_below_us => Err(Unidentified::Launching),
            holder => Ok(holder.map_or(Rights::All, Rights::Job)),
        }
    }
}

fn listen(listener: StdListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn file_id(path: &Path) -> io::Result<FileId> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Creates the directory if needed, and refuses one that is not private.
fn make_private(dir: &Path) -> Result<(), BindError> {
    let io = |what| move |source| BindError::Io { what, path: dir.to_owned(), source };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(io("cannot create the directory of the socket"))?;
    let found = std::fs::symlink_metadata(dir).map_err(io("cannot inspect the directory of the socket"))?;
    let quoted: OsString = dir.into();
    let quoted = quoted.to_string_lossy().replace('\'', r"'\''");
    let (what, remedy) = match () {
        () if found.is_symlink() => ("is a symbolic link", "use the directory that it points to".to_owned()),
        () if found.uid() != rustix::process::geteuid().as_raw() => (
            "belongs to another user",
            "set LASTWORD_HOME or XDG_RUNTIME_DIR to a directory of your own".to_owned(),
        ),
        () if found.mode() & 0o077 != 0 => ("is accessible to other users", format!("chmod 700 '{quoted}'")),
        () => return Ok(()),
    };
    Err(BindError::NotPrivate { dir: dir.to_owned(), what, remedy })
}
