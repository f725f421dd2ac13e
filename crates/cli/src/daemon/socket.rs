//! The daemon's place on disk: what lies there and is not a socket gives way, and a socket that somebody took away is made again.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lastword_api::Code;
use lastword_server::Endpoint;

use crate::failure::Failure;
use crate::lock;
use crate::paths::Paths;

/// How often the daemon looks whether its socket is still there: nobody can reach it otherwise. A look is one system call.
const LOOK: Duration = Duration::from_secs(1);

/// Returns where to listen: the usual place, or one in the state folder if the daemon of another folder listens at the usual one.
/// Who looks for this daemon reads the place in its lock.
pub(super) fn settle(paths: &Paths) -> Paths {
    let name = paths.socket.file_name().unwrap_or_default();
    let is_taken = || {
        let folder = lastword_proc::Folder::open(paths.socket_dir())?;
        let stream = UnixStream::connect(folder.path_of(&name.to_string_lossy()))?;
        std::io::Result::Ok(lock::is_of_another(paths, &stream))
    };
    match is_taken() {
        Ok(true) => Paths { socket: paths.in_state(&name.to_string_lossy()), ..paths.clone() },
        _ => paths.clone(),
    }
}

/// Listens. Whoever calls this holds the lock, so what lies at the place is nobody's.
pub(super) fn bind(paths: &Paths) -> Result<Endpoint, Failure> {
    make_way(&paths.socket)?;
    Endpoint::bind(&paths.socket).map_err(|error| Failure::new(Code::Unavailable, error.to_string()))
}

/// Moves a folder that lies where the socket belongs aside: it may hold something, so it is not removed.
fn make_way(path: &Path) -> Result<(), Failure> {
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let aside = path.with_extension(format!("moved-aside-{}", lastword_proc::clock::wall_ms()));
    std::fs::rename(path, &aside).map_err(|error| {
        Failure::new(Code::Unavailable, format!("{} is in the way of the socket: {error}", path.display()))
    })?;
    tracing::warn!(from = %path.display(), to = %aside.display(), "a folder was in the way of the socket");
    Ok(())
}

/// Returns when somebody has taken the socket away, or put something else in its place.
pub(super) async fn taken_away(path: &Path) {
    let Some(ours) = which(path) else { return };
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        if which(path) != Some(ours) {
            return;
        }
    }
}

/// Returns which file the socket is.
fn which(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}
