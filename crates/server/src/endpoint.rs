//! The socket: its path, its permissions and its owner.
//!
//! The binding process holds the lock of the state folder, so a file at the path is left over, and is replaced without a moment
//! in which nothing is there. The folder is private, and that is checked: the mode of a socket is not obeyed everywhere.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Bytes of a path that fit into the address of a socket, without the zero at its end.
const PATH_BYTES_MAX: usize = 107;

/// The name under which a socket is made before it takes its place. One name is enough: only the holder of the lock binds.
const NEW: &str = ".new";

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path does not fit into the address of a socket.
    #[error(
        "the socket's path has {} bytes and may have {PATH_BYTES_MAX}: {}; set LASTWORD_HOME or XDG_RUNTIME_DIR to a shorter one",
        path.as_os_str().len(), path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Others could reach the socket, or put another in its place.
    #[error("{} {what}; the folder of the socket must be yours alone: {remedy}", dir.display())]
    NotPrivate {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// What to do about it.
        remedy: String,
    },
    /// Something that cannot be replaced lies at the path.
    #[error("{} is a folder, and the socket belongs there: move it away", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// The system said no.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What it came to.
        source: io::Error,
    },
}

/// A socket to answer on.
#[derive(Debug)]
pub struct Endpoint {
    listener: UnixListener,
    /// Where it is and which file it is; unknown for a socket that another process made.
    place: Option<(PathBuf, FileId)>,
}

/// A file for as long as it exists.
type FileId = (u64, u64);

impl Endpoint {
    /// Makes the socket, and its folder if there is none. Replaces what a former daemon left there, so the caller must hold the
    /// lock that names the daemon. Must be called within a runtime.
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
        let listener = StdListener::bind(&new).map_err(io("cannot make the socket", &new))?;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&new, mode).map_err(io("cannot protect the socket", &new))?;
        let id = file_id(&new).map_err(io("cannot look at the socket", &new))?;
        std::fs::rename(&new, path).map_err(|source| match source.kind() {
            io::ErrorKind::IsADirectory => BindError::InTheWay { path: path.to_owned() },
            _ => io("cannot put the socket at", path)(source),
        })?;
        let listener = listen(listener).map_err(io("cannot listen on", path))?;
        Ok(Endpoint { listener, place: Some((path.to_owned(), id)) })
    }

    /// Takes a socket that another process made and will remove, such as the service manager.
    pub fn from_listener(listener: StdListener) -> io::Result<Endpoint> {
        Ok(Endpoint { listener: listen(listener)?, place: None })
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    /// Removes the socket, unless another has taken its place.
    pub(crate) fn remove(self) {
        let Some((path, id)) = &self.place else { return };
        if file_id(path).is_ok_and(|now| now == *id)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "the socket could not be removed; the next daemon replaces it");
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

/// Makes the folder if there is none, and refuses one that is not the user's alone.
fn make_private(dir: &Path) -> Result<(), BindError> {
    let io = |what| move |source| BindError::Io { what, path: dir.to_owned(), source };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(io("cannot make the folder of the socket"))?;
    let found = std::fs::symlink_metadata(dir).map_err(io("cannot look at the folder of the socket"))?;
    let quoted: OsString = dir.into();
    let quoted = quoted.to_string_lossy().replace('\'', r"'\''");
    let (what, remedy) = match () {
        () if found.is_symlink() => ("is a link", "name the folder it leads to".to_owned()),
        () if found.uid() != rustix::process::geteuid().as_raw() => {
            ("belongs to another user", "set LASTWORD_HOME or XDG_RUNTIME_DIR to one of your own".to_owned())
        }
        () if found.mode() & 0o077 != 0 => ("is open to others", format!("chmod 700 '{quoted}'")),
        () => return Ok(()),
    };
    Err(BindError::NotPrivate { dir: dir.to_owned(), what, remedy })
}
