//! The socket: private, replaces leftovers, and removes only itself.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use lastword_server::{BindError, Endpoint};

/// A private directory for a socket.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn socket(&self) -> PathBuf {
        self.dir().join("lastword.sock")
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[tokio::test]
async fn directory_and_socket_are_private() {
    let place = Place::new();
    let _endpoint = Endpoint::bind(&place.socket()).unwrap();
    assert_eq!((mode(&place.dir()), mode(&place.socket())), (0o700, 0o600));
    UnixStream::connect(place.socket()).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(place.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lastword.sock"], "nothing else is left");
}

#[tokio::test]
async fn c60_leftovers_of_an_earlier_daemon_are_replaced() {
    type Leave = fn(&Path);
    let left: [(&str, Leave); 4] = [
        ("a socket nobody listens on", |path| drop(UnixListener::bind(path).unwrap())),
        ("a file", |path| std::fs::write(path, "pid 7").unwrap()),
        ("a link to nowhere", |path| symlink("/nowhere/at/all", path).unwrap()),
        ("one that was not finished", |path| drop(UnixListener::bind(path.with_file_name(".new")).unwrap())),
    ];
    for (what, leave) in left {
        let place = Place::new();
        drop(Endpoint::bind(&place.socket()).unwrap());
        std::fs::remove_file(place.socket()).unwrap();
        leave(&place.socket());
        let _endpoint = Endpoint::bind(&place.socket()).unwrap_or_else(|error| panic!("{what}: {error}"));
        UnixStream::connect(place.socket()).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

#[tokio::test]
async fn c60_a_socket_is_replaced_atomically() {
    let place = Place::new();
    let _first = Endpoint::bind(&place.socket()).unwrap();
    let (path, stop) = (place.socket(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let seen = std::sync::Arc::clone(&stop);
    let looker = std::thread::spawn(move || {
        while !seen.load(std::sync::atomic::Ordering::Relaxed) {
            assert!(std::fs::symlink_metadata(&path).is_ok(), "there was no socket");
        }
    });
    for _ in 0..200 {
        Endpoint::bind(&place.socket()).unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    looker.join().unwrap();
}

#[tokio::test]
async fn a_directory_that_is_not_private_is_refused_with_advice() {
    let place = Place::new();
    std::fs::create_dir(place.dir()).unwrap();
    for open in [0o710, 0o701, 0o755, 0o777] {
        std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(open)).unwrap();
        let error = Endpoint::bind(&place.socket()).unwrap_err();
        assert!(matches!(error, BindError::NotPrivate { .. }), "{open:o}: {error}");
        assert!(error.to_string().contains("chmod 700"), "{error}");
        assert!(!place.socket().exists());
    }
    let link = place.0.path().join("link");
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(place.dir(), &link).unwrap();
    let error = Endpoint::bind(&link.join("lastword.sock")).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
}

#[tokio::test]
async fn a_directory_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a folder of another user");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.dir()).unwrap();
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(place.dir(), Some(65_534), None).unwrap();
    let error = Endpoint::bind(&place.socket()).unwrap_err();
    assert!(error.to_string().contains("belongs to another user"), "{error}");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused_with_advice() {
    let place = Place::new();
    let long = place.dir().join("x".repeat(120)).join("lastword.sock");
    let error = Endpoint::bind(&long).unwrap_err();
    assert!(matches!(error, BindError::TooLong { .. }), "{error}");
    assert!(error.to_string().contains("LASTWORD_HOME"), "{error}");
}

#[tokio::test]
async fn a_directory_in_the_way_is_not_removed() {
    let place = Place::new();
    drop(Endpoint::bind(&place.socket()).unwrap());
    std::fs::remove_file(place.socket()).unwrap();
    std::fs::create_dir(place.socket()).unwrap();
    let error = Endpoint::bind(&place.socket()).unwrap_err();
    assert!(matches!(error, BindError::InTheWay { .. }), "{error}");
    assert!(place.socket().is_dir());
}
