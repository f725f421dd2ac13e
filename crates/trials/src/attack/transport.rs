//! The way to the daemon: its socket, the folder of the socket, the processes that connect and answer.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{Home, LOOK, OWNER, STRANGER, Setup, at, refused, says};
use crate::clock;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 1, what: "a stranger looks into the folder of the socket", ends: Ends::Refused, make: look_into_folder },
    Attempt { item: 1, what: "a stranger looks for a socket without a file, which has no mode", ends: Ends::Refused, make: abstract_socket },
    Attempt { item: 1, what: "the daemon is started under umask 000", ends: Ends::Survived, make: loose_umask },
    Attempt { item: 1, what: "the folder of the socket is open to others", ends: Ends::Refused, make: open_folder },
    Attempt { item: 1, what: "the folder of the socket is a link to one that is fine", ends: Ends::Refused, make: linked_folder },
    Attempt { item: 1, what: "the folder of the socket belongs to a stranger", ends: Ends::Refused, make: foreign_folder },
    Attempt { item: 2, what: "a stranger connects", ends: Ends::Refused, make: connect },
    Attempt { item: 2, what: "a stranger connects to a socket whose mode somebody has opened", ends: Ends::Refused, make: connect_to_open },
    Attempt { item: 2, what: "root connects and asks", ends: Ends::Refused, make: root_asks },
    Attempt { item: 3, what: "a plain file lies where the socket belongs", ends: Ends::Survived, make: file_in_the_way },
    Attempt { item: 3, what: "a link to a precious file lies where the socket belongs", ends: Ends::Survived, make: link_in_the_way },
    Attempt { item: 3, what: "a stale socket lies there, and another beside it where it is made", ends: Ends::Survived, make: stale_socket },
    Attempt { item: 3, what: "a stranger makes the folder in /tmp first, and listens there", ends: Ends::Refused, make: squat_in_tmp },
    Attempt { item: 3, what: "a stranger answers in the user's own folder", ends: Ends::Refused, make: foreign_listener },
    Attempt { item: 3, what: "the socket is taken away from a daemon that runs", ends: Ends::Survived, make: taken_away },
];

fn look_into_folder(setup: &Setup) -> Result<String, String> {
    says(&setup.attack(STRANGER, &["list", &setup.home.0.home().display().to_string()])?, "Permission denied")
}

fn abstract_socket(setup: &Setup) -> Result<String, String> {
    let daemon = daemon(&setup.home)?;
    let sockets = fs::read_to_string("/proc/net/unix").map_err(|error| error.to_string())?;
    let named: Vec<&str> = sockets.lines().filter_map(|line| line.split_whitespace().nth(7)).collect();
    let place = setup.home.0.place().display().to_string();
    let ours: Vec<&&str> = named.iter().filter(|name| name.contains(&place)).collect();
    match ours.iter().any(|name| name.starts_with('@')) || ours.is_empty() {
        true => Err(format!("sockets of daemon {daemon}: {ours:?}")),
        false => Ok("it has none".to_owned()),
    }
}

fn loose_umask(setup: &Setup) -> Result<String, String> {
    let home = setup.another("umask")?;
    let script = "umask 000; exec \"$0\" run -- true";
    let mut command = home.0.command(&["-c", script]);
    command = re_run(&command, "sh", &[home.0.program()]);
    let said = home.0.run_to_end(&command)?;
    if !said.status.success() {
        return refused(&said);
    }
    let socket = fs::symlink_metadata(home.socket()).map_err(at(&home.socket()))?;
    let open = open_to_others(home.0.home())?;
    match (socket.file_type().is_socket(), socket.mode() & 0o777, open.as_slice()) {
        (true, 0o600, []) => Ok("socket 0600, and nothing of the state is open to others".to_owned()),
        found => Err(format!("{found:?}")),
    }
}

/// Returns everything below a folder that others may read, write or enter.
pub(super) fn open_to_others(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))?.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.mode() & 0o077 != 0 && !meta.is_symlink() {
                found.push(format!("{} {:o}", entry.path().display(), meta.mode() & 0o777));
            }
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn open_folder(setup: &Setup) -> Result<String, String> {
    let mut how = String::new();
    for mode in [0o777, 0o750, 0o705] {
        let runtime = setup.folder("run-open", OWNER, 0o700)?;
        let folder = setup.folder("run-open/lastword", OWNER, mode)?;
        how = says(&start_in(setup, &runtime)?, "chmod 700")?;
        if folder.join("lastword.sock").exists() {
            return Err(format!("a socket was made in a folder of mode {mode:o}"));
        }
    }
    Ok(format!("modes 777, 750 and 705: {how}"))
}

fn linked_folder(setup: &Setup) -> Result<String, String> {
    let runtime = setup.folder("run-link", OWNER, 0o700)?;
    let elsewhere = setup.folder("elsewhere", OWNER, 0o700)?;
    symlink(&elsewhere, runtime.join("lastword")).map_err(at(&runtime))?;
    let said = start_in(setup, &runtime)?;
    match elsewhere.join("lastword.sock").exists() {
        true => Err("a socket was made where the link leads".to_owned()),
        false => Ok(said.lines().next().unwrap_or_default().to_owned()),
    }
}

fn foreign_folder(setup: &Setup) -> Result<String, String> {
    let runtime = setup.folder("run-foreign", OWNER, 0o700)?;
    setup.folder("run-foreign/lastword", STRANGER, 0o777)?;
    let said = start_in(setup, &runtime)?;
    match fs::read_dir(runtime.join("lastword")).map_err(at(&runtime))?.count() {
        0 => says(&said, "belongs to"),
        _ => Err("something was made in it".to_owned()),
    }
}

/// Starts a daemon whose socket belongs into a folder of its own; returns why it did not start.
fn start_in(setup: &Setup, runtime: &Path) -> Result<String, String> {
    let home = setup.another("places")?;
    let mut command = home.0.command(&["daemon", "start"]);
    command.env_remove("LASTWORD_HOME").env("XDG_RUNTIME_DIR", runtime);
    let said = home.0.run_to_end(&command)?;
    refused(&said)
}

fn connect(setup: &Setup) -> Result<String, String> {
    says(&setup.ask(STRANGER, &setup.home, &["GET", "/v1/jobs"])?, "Permission denied")
}

fn connect_to_open(setup: &Setup) -> Result<String, String> {
    let home = setup.another("opened")?;
    home.0.said(&["daemon", "start"])?;
    let id = home.0.said(&["run", "-d", "sleep", "1000"])?;
    let door = home.socket();
    let mut relay = None;
    if setup.has(Bug::AnybodyIsAnswered) {
        let kept = home.0.home().join("kept.sock");
        fs::rename(&door, &kept).map_err(at(&door))?;
        relay = Some(setup.lurker(OWNER, &["relay".as_ref(), door.as_os_str(), kept.as_os_str()])?);
    }
    for (path, mode) in [(home.0.home(), 0o711), (door.as_path(), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(at(path))?;
    }
    let stop = format!("/v1/jobs/{id}:cancel");
    let mut answers = Vec::new();
    for request in [
        &["GET", "/livez"][..],
        &["GET", "/v1/daemon"],
        &["GET", "/v1/jobs"],
        &["GET", "/openapi.json"],
        &["POST", &stop, "{}"],
        &["POST", "/v1/daemon:stop", "{}"],
        &["POST", "/v1/jobs", r#"{"argv":["true"],"cwd":"/"}"#],
    ] {
        answers.push(setup.ask(STRANGER, &home, request)?);
    }
    drop(relay);
    fs::set_permissions(home.0.home(), fs::Permissions::from_mode(0o700)).map_err(at(home.0.home()))?;
    match answers.iter().find(|answer| *answer != "403 forbidden") {
        Some(other) => Err(format!("a stranger was answered: {other}; all: {answers:?}")),
        None => Ok(format!("403 forbidden, {} of {} requests", answers.len(), answers.len())),
    }
}

fn root_asks(setup: &Setup) -> Result<String, String> {
    says(&setup.ask(0, &setup.home, &["GET", "/v1/jobs"])?, "403 forbidden")
}

/// Starts a daemon although something lies where its socket belongs.
fn start_over(setup: &Setup, name: &str, put: impl Fn(&Home) -> Result<(), String>) -> Result<Home, String> {
    let home = setup.another(name)?;
    put(&home)?;
    home.0.said(&["run", "--", "true"])?;
    let answer = setup.ask(OWNER, &home, &["GET", "/v1/jobs"])?;
    says(&answer, "200")?;
    Ok(home)
}

fn file_in_the_way(setup: &Setup) -> Result<String, String> {
    start_over(setup, "file", |home| fs::write(home.socket(), "in the way").map_err(at(&home.socket())))?;
    Ok("replaced by the socket".to_owned())
}

fn link_in_the_way(setup: &Setup) -> Result<String, String> {
    let precious = setup.folder("precious", OWNER, 0o700)?.join("file");
    fs::write(&precious, "precious").map_err(at(&precious))?;
    let home = start_over(setup, "link", |home| {
        for name in ["lastword.sock", ".new"] {
            symlink(&precious, home.0.home().join(name)).map_err(at(home.0.home()))?;
        }
        Ok(())
    })?;
    let kept = fs::read_to_string(&precious).map_err(at(&precious))?;
    let is_socket = fs::symlink_metadata(home.socket()).is_ok_and(|meta| meta.file_type().is_socket());
    match (kept.as_str(), is_socket) {
        ("precious", true) => Ok("the link is replaced, what it led to is untouched".to_owned()),
        found => Err(format!("{found:?}")),
    }
}

fn stale_socket(setup: &Setup) -> Result<String, String> {
    start_over(setup, "stale", |home| {
        for name in ["lastword.sock", ".new"] {
            let path = home.0.home().join(name);
            drop(UnixListener::bind(&path).map_err(at(&path))?);
        }
        Ok(())
    })?;
    Ok("replaced by the socket".to_owned())
}

fn squat_in_tmp(setup: &Setup) -> Result<String, String> {
    let shared = setup.folder("shared", 0, 0o1777)?;
    let folder = setup.folder(&format!("shared/lastword-{OWNER}"), STRANGER, 0o777)?;
    let heard = folder.join("heard");
    let socket = folder.join("lastword.sock");
    let _squatter = setup.lurker(STRANGER, &["squat".as_ref(), socket.as_os_str(), heard.as_os_str()])?;
    let home = setup.another("squat")?;
    let mut command = home.0.command(&["run", "-d", "echo", "secret"]);
    command.env_remove("LASTWORD_HOME").env("TMPDIR", &shared);
    let said = refused(&home.0.run_to_end(&command)?)?;
    match heard.exists() {
        true => Err("the stranger was told something".to_owned()),
        false => says(&said, "belongs to another user"),
    }
}

fn foreign_listener(setup: &Setup) -> Result<String, String> {
    let folder = setup.folder("foreign", STRANGER, 0o777)?;
    let (socket, heard) = (folder.join("s"), folder.join("heard"));
    let _squatter = setup.lurker(STRANGER, &["squat".as_ref(), socket.as_os_str(), heard.as_os_str()])?;
    let home = setup.another("answered")?;
    fs::rename(&socket, home.socket()).map_err(at(&socket))?;
    let said = home.refused(&["run", "-d", "echo", "secret"])?;
    let told = clock::until(LOOK, LOOK, || fs::read_to_string(&heard).ok());
    match told.as_deref() {
        None | Some("0 bytes") => says(&said, "nothing was sent to it"),
        Some(heard) => Err(format!("the stranger heard {heard}")),
    }
}

fn taken_away(setup: &Setup) -> Result<String, String> {
    let home = setup.another("taken")?;
    home.0.said(&["daemon", "start"])?;
    let pid = daemon(&home)?;
    fs::remove_file(home.socket()).map_err(at(&home.socket()))?;
    let _impostor = UnixListener::bind(home.socket()).map_err(at(&home.socket()))?;
    fs::remove_file(home.socket()).map_err(at(&home.socket()))?;
    home.0.said(&["run", "--", "true"])?;
    match daemon(&home)? == pid {
        true => Ok("the same daemon has made it again".to_owned()),
        false => Err("another daemon answers".to_owned()),
    }
}

/// Returns the number of a daemon.
pub(super) fn daemon(home: &Home) -> Result<i64, String> {
    let status = home.json(&["daemon", "status"])?;
    status["pid"].as_i64().ok_or_else(|| format!("the daemon does not say its number: {status}"))
}

/// Returns a command that is run by another program, in the same environment.
fn re_run(command: &std::process::Command, program: &str, more: &[&Path]) -> std::process::Command {
    let mut other = std::process::Command::new(program);
    other.args(command.get_args()).args(more);
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other
}
