//! Checks the daemon: whether it runs and answers, its version, and its socket.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use lastword_api::{Daemon, VERSION};
use lastword_client::{Connection, FromReply as _, daemon as api};

use super::check::{Check, is_lastwords};
use crate::client::connect;
use crate::daemon::LOG;
use crate::environment;
use crate::failure::Failure;
use crate::lock::{self, Holder};
use crate::paths::{self, Paths};
use crate::text::duration;
use crate::text::shell::quoted;
use crate::ui::describe;

/// How long a daemon may take to answer; no request takes longer than a moment.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// An answer usually takes a millisecond; this much means more than a busy machine.
const ANSWER_SLOW: Duration = Duration::from_secs(2);

/// The result of asking the daemon.
enum Answer {
    /// No daemon listens.
    NoListener,
    /// There is a listener that must not be trusted.
    Refused(Failure),
    /// It does not answer in time, or not as a daemon would.
    Silent(String),
    /// It answered within this time, and has this version.
    Received(Duration, String, Option<Box<Daemon>>),
}

pub(super) async fn check(paths: &Paths) -> Vec<Check> {
    let answer = match tokio::time::timeout(ANSWER_MAX, ask(paths)).await {
        Ok(answer) => answer,
        Err(_) => Answer::Silent(format!("no answer within {} s", ANSWER_MAX.as_secs())),
    };
    let holder = Holder::of(paths);
    let is_held = lock::is_held(paths);
    let mut checks = vec![daemon(paths, &answer, is_held, holder.as_ref())];
    if let Answer::Received(_, version, daemon) = &answer {
        checks.push(version_of(version));
        checks.extend(daemon.as_ref().and_then(|daemon| troubles(daemon)));
    }
    // Its socket may be at another path than ours.
    let place = holder.as_ref().and_then(|holder| holder.socket.clone()).filter(|_| is_held);
    checks.push(socket(place.as_deref().unwrap_or(&paths.socket), is_held));
    checks
}

/// Asks the listener for its status. Starts nothing.
async fn ask(paths: &Paths) -> Answer {
    let begun = Instant::now();
    let stream = match connect::reach(paths).await {
        Ok(Some(stream)) => stream,
        Ok(None) => return Answer::NoListener,
        Err(failure) => return Answer::Refused(failure),
    };
    let asked = async { Connection::open(stream).await?.send(&api::show()).await };
    let reply = match asked.await {
        Ok(reply) => reply,
        Err(lost) => return Answer::Silent(lost.to_string()),
    };
    let Some(version) = reply.version().map(str::to_owned) else {
        return Answer::Silent("the listener is not a Lastword daemon".to_owned());
    };
    Answer::Received(begun.elapsed(), version, Daemon::from_reply(reply).ok().map(Box::new))
}

fn daemon(paths: &Paths, answer: &Answer, is_held: bool, holder: Option<&Holder>) -> Check {
    let pid_note = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
    match answer {
        Answer::Refused(failure) => {
            let check = Check::fail("daemon", failure.problem.detail.clone());
            match failure.next.first() {
                Some(next) => check.remedy(next),
                None => check,
            }
        }
        // It may not react to a stop request either, and jobs do not need it.
        Answer::Silent(why) => match holder.filter(|holder| is_held && holder.identity().is_alive()) {
            Some(holder) => Check::fail("daemon", format!("running{pid_note}, but does not answer: {why}"))
                .remedy(format!(
                    "kill -KILL {}    # safe: jobs keep running, and the next daemon takes them over",
                    holder.pid
                )),
            None => {
                Check::fail("daemon", format!("a process listens on the socket, but does not answer: {why}"))
                    .remedy(format!("fuser --kill {}", quoted(&paths.socket)))
            }
        },
        Answer::Received(took, _, daemon) => running(*took, daemon.as_deref(), &pid_note),
        Answer::NoListener if is_held && !holder.is_some_and(|holder| holder.identity().is_alive()) => {
            Check::warn("daemon", "starting or stopping right now").remedy("lastword doctor    # in a moment")
        }
        Answer::NoListener if is_held => Check::fail(
            "daemon",
            format!("running{pid_note}, but not reachable at {}", paths.socket.display()),
        )
        .remedy("lastword daemon restart    # jobs keep running"),
        Answer::NoListener => not_running(paths, holder),
    }
}

fn running(took: Duration, daemon: Option<&Daemon>, pid_note: &str) -> Check {
    let time = duration::show_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match daemon {
        Some(daemon) if !daemon.ready => {
            let text = format!("running (pid {}), still recovering its jobs", daemon.pid);
            Check::warn("daemon", text).remedy("lastword daemon status    # in a moment")
        }
        _ if took > ANSWER_SLOW => {
            Check::warn("daemon", format!("running{pid_note}, but took {time} to answer"))
                .remedy("lastword daemon status    # a busy disk is the usual reason")
        }
        _ => Check::ok("daemon", format!("running{pid_note}; answered in {time}")),
    }
}

fn not_running(paths: &Paths, holder: Option<&Holder>) -> Check {
    let start = "lastword daemon start";
    if holder.is_some_and(|holder| !holder.stopped) {
        let text = format!(
            "not running, and the last one did not stop normally; its log may say why: {}",
            paths.in_state(LOG).display()
        );
        return Check::warn("daemon", text).remedy(start);
    }
    if environment::is_set("LASTWORD_NO_AUTOSTART") {
        return Check::warn("daemon", "not running, and LASTWORD_NO_AUTOSTART prevents starting it")
            .remedy(start);
    }
    Check::ok("daemon", "not running; the next command that needs it starts it")
}

fn version_of(version: &str) -> Check {
    if version == VERSION {
        return Check::ok("version", format!("{VERSION}, same as the daemon"));
    }
    Check::warn("version", format!("this is {VERSION}, but the daemon is {version}"))
        .remedy("lastword daemon restart    # jobs keep running")
}

fn troubles(daemon: &Daemon) -> Option<Check> {
    let last = daemon.troubles.first()?;
    let count = describe::count(daemon.troubles.len() as u64, "recent problem", "recent problems");
    let text = format!("{count}; the latest: {}", last.text);
    Some(Check::warn("troubles", text).remedy("lastword daemon status"))
}

fn socket(path: &Path, is_held: bool) -> Check {
    let place = path.display();
    let folder = path.parent().unwrap_or(Path::new("/"));
    if folder.exists()
        && let Err(failure) = paths::check_private(folder)
    {
        let check = Check::fail("socket", failure.problem.detail.clone());
        let is_ours = is_lastwords(folder)
            && std::fs::metadata(folder)
                .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
        return if is_ours { check.private(folder, 0o700) } else { check.remedy("export LASTWORD_HOME=…") };
    }
    match std::fs::symlink_metadata(path) {
        // A daemon moves it aside when it starts or notices it.
        Ok(found) if !found.file_type().is_socket() => {
            Check::warn("socket", format!("{place} is not a socket; the daemon will move it aside"))
        }
        Ok(found) if found.mode() & 0o077 != 0 => Check::fail(
            "socket",
            format!("{place} is accessible to others (mode {:o})", found.mode() & 0o777),
        )
        .private(path, 0o600),
        Ok(_) if is_held => Check::ok("socket", format!("{place} is private")),
        Ok(_) => Check::ok("socket", format!("{place} is left over; the next daemon replaces it")),
        Err(_) if is_held => {
            Check::fail("socket", format!("{place} is missing; the daemon recreates it within a second"))
                .remedy("lastword daemon restart    # if it does not")
        }
        Err(_) => Check::ok("socket", format!("{place} does not exist, as no daemon is running")),
    }
}
