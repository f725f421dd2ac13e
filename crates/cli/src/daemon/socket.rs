//! The daemon's socket on disk: moves obstacles aside, and recreates a socket that was removed.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lastword_api::Code;
use lastword_server::Endpoint;

use crate::failure::Failure;
use crate::lock;
use crate::paths::Paths;

/// How often the daemon checks that its socket still exists, with one system call. Without it no client could connect.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Chooses where to listen: the default path, or one in the state folder if the daemon of another state folder uses the default. Clients
/// find the path in the lock file.
pub(super) fn choose_path(paths: &Paths) -> Paths {
    let name = paths.socket.file_name().unwrap_or_default();
    let is_taken = || {
        let folder = lastword_proc::Folder::open(paths.socket_dir())?;
        let stream = UnixStream::connect(folder.path_of(&name.to_string_lossy()))?;
        std::io::Result::Ok(lock::belongs_to_another(paths, &stream))
    };
    match is_taken() {
        Ok(true) => Paths { socket: paths.in_state(&name.to_string_lossy()), ..paths.clone() },
        _ => paths.clone(),
    }
}

/// Binds the socket. The caller holds the lock, so any file at the path is left over.
pub(super) fn bind(paths: &Paths) -> Result<Endpoint, Failure> {
    move_folder_aside(&paths.socket)?;
    Endpoint::bind(&paths.socket).map_err(|error| Failure::new(Code::Unavailable, error.to_string()))
}

/// Moves a folder at the socket's path aside: it may contain files, so it is not deleted.
fn move_folder_aside(path: &Path) -> Result<(), Failure> {
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let aside = path.with_extension(format!("moved-aside-{}", lastword_proc::clock::wall_ms()));
    std::fs::rename(path, &aside).map_err(|error| {
        Failure::new(
            Code::Unavailable,
            format!("cannot move {} out of the way of the socket: {error}", path.display()),
        )
    })?;
    tracing::warn!(from = %path.display(), to = %aside.display(), "moved a folder out of the way of the socket");
    Ok(())
}

/// Returns once the socket was removed or replaced.
pub(super) async fn removed(path: &Path) {
    let Some(ours) = file_id(path) else { return };
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if file_id(path) != Some(ours) {
            return;
        }
    }
}

/// Identifies the socket's file.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}
