//! The daemon: whether one runs, how fast it answers, whether it is of this version, and the socket it listens at.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use lastword_api::{Daemon, VERSION, VERSION_HEADER};

use super::Check;
use crate::client::connect;
use crate::daemon::LOG;
use crate::environment;
use crate::failure::Failure;
use crate::lock::{self, Holder};
use crate::paths::{self, Paths};
use crate::text::duration;
use crate::ui::words;

/// How long a daemon may take to answer: it does nothing else that takes longer than a moment.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// An answer that takes longer is not a busy machine any more: it takes a millisecond.
const ANSWER_SLOW: Duration = Duration::from_secs(2);

/// What came of asking.
enum Answer {
    /// Nobody listens.
    Nobody,
    /// Somebody did, who is not to be spoken to.
    Refused(Failure),
    /// It does not answer in time, or not in words of ours.
    Silent(String),
    /// It answered, in this time, and called itself by this version.
    Came(Duration, String, Option<Box<Daemon>>),
}

pub(super) async fn examine(paths: &Paths) -> Vec<Check> {
    let answer = match tokio::time::timeout(ANSWER_MAX, ask(paths)).await {
        Ok(answer) => answer,
        Err(_) => Answer::Silent(format!("no answer within {} s", ANSWER_MAX.as_secs())),
    };
    let holder = Holder::of(paths);
    let is_held = lock::is_held(paths);
    let mut checks = vec![daemon(paths, &answer, is_held, holder.as_ref())];
    if let Answer::Came(_, version, daemon) = &answer {
        checks.push(version_of(version));
        checks.extend(daemon.as_ref().and_then(|daemon| troubles(daemon)));
    }
    // Who shares the folder may have been told another place than the daemon was.
    let place = holder.as_ref().and_then(|holder| holder.socket.clone()).filter(|_| is_held);
    checks.push(socket(place.as_deref().unwrap_or(&paths.socket), is_held));
    checks
}

/// Asks whoever listens how it is. Nothing is started for it.
async fn ask(paths: &Paths) -> Answer {
    let begun = Instant::now();
    let mut sender = match connect::knock(paths).await {
        Ok(Some(sender)) => sender,
        Ok(None) => return Answer::Nobody,
        Err(failure) => return Answer::Refused(failure),
    };
    let request = Request::get("/v1/daemon").header(HOST, "lastword").body(Full::<Bytes>::default());
    let Ok(request) = request else { return Answer::Silent("the question cannot be asked".to_owned()) };
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return Answer::Silent(error.to_string()),
    };
    let version = response.headers().get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    let Some(version) = version.map(str::to_owned) else {
        return Answer::Silent("whoever listens there is not the daemon of Lastword".to_owned());
    };
    match response.into_body().collect().await {
        Ok(body) => {
            let daemon = serde_json::from_slice(&body.to_bytes()).ok();
            Answer::Came(begun.elapsed(), version, daemon)
        }
        Err(error) => Answer::Silent(error.to_string()),
    }
}

fn daemon(paths: &Paths, answer: &Answer, is_held: bool, holder: Option<&Holder>) -> Check {
    let who = holder.map_or_else(String::new, |holder| format!(" (pid {})", holder.pid));
    match answer {
        Answer::Refused(failure) => {
            let check = Check::fail("daemon", failure.problem.detail.clone());
            match failure.next.first() {
                Some(next) => check.remedy(next),
                None => check,
            }
        }
        // It may not hear a request to stop either, and jobs do not need it.
        Answer::Silent(why) => match holder.filter(|holder| is_held && holder.identity().is_alive()) {
            Some(holder) => Check::fail("daemon", format!("one runs{who}, and does not answer: {why}"))
                .remedy(format!(
                    "kill -KILL {}    # jobs go on, and the next daemon adopts them",
                    holder.pid
                )),
            None => Check::fail("daemon", format!("somebody listens, and does not answer: {why}"))
                .remedy(format!("fuser --kill {}", super::shown(&paths.socket))),
        },
        Answer::Came(took, _, daemon) => came(*took, daemon.as_deref(), &who),
        Answer::Nobody if is_held && !holder.is_some_and(|holder| holder.identity().is_alive()) => {
            Check::warn("daemon", "one is about to listen, or just went")
                .remedy("lastword doctor    # in a moment")
        }
        Answer::Nobody if is_held => Check::fail(
            "daemon",
            format!("one runs{who}, and cannot be reached at {}", paths.socket.display()),
        )
        .remedy("lastword daemon restart    # jobs go on meanwhile"),
        Answer::Nobody => nobody(paths, holder),
    }
}

fn came(took: Duration, daemon: Option<&Daemon>, who: &str) -> Check {
    let time = duration::show_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match daemon {
        Some(daemon) if !daemon.ready => {
            let text = format!("runs (pid {}), and is still finding out what became of its jobs", daemon.pid);
            Check::warn("daemon", text).remedy("lastword daemon status    # in a moment")
        }
        _ if took > ANSWER_SLOW => Check::warn("daemon", format!("runs{who}, and took {time} to answer"))
            .remedy("lastword daemon status    # what it is doing; a busy disk is the usual reason"),
        _ => Check::ok("daemon", format!("runs{who}; answered in {time}")),
    }
}

fn nobody(paths: &Paths, holder: Option<&Holder>) -> Check {
    let start = "lastword daemon start";
    if holder.is_some_and(|holder| !holder.stopped) {
        let text = format!(
            "none runs, and the last one did not stop in order; why: {}",
            paths.in_state(LOG).display()
        );
        return Check::warn("daemon", text).remedy(start);
    }
    if environment::is_set("LASTWORD_NO_AUTOSTART") {
        return Check::warn("daemon", "none runs, and LASTWORD_NO_AUTOSTART forbids to start one")
            .remedy(start);
    }
    Check::ok("daemon", "none runs; the next command that needs one starts it")
}

fn version_of(version: &str) -> Check {
    if version == VERSION {
        return Check::ok("version", format!("{VERSION}, as the daemon"));
    }
    Check::warn("version", format!("this is {VERSION}, the daemon is {version}"))
        .remedy("lastword daemon restart    # jobs go on meanwhile")
}

fn troubles(daemon: &Daemon) -> Option<Check> {
    let last = daemon.troubles.first()?;
    let count = words::count(daemon.troubles.len() as u64, "thing went", "things went");
    let text = format!("{count} wrong lately; the last: {}", last.text);
    Some(Check::warn("troubles", text).remedy("lastword daemon status"))
}

fn socket(path: &Path, is_held: bool) -> Check {
    let place = path.display();
    let folder = path.parent().unwrap_or(Path::new("/"));
    if folder.exists()
        && let Err(failure) = paths::check_private(folder)
    {
        let check = Check::fail("socket", failure.problem.detail.clone());
        let is_ours =
            std::fs::metadata(folder).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
        return if is_ours { check.private(folder, 0o700) } else { check.remedy("export LASTWORD_HOME=…") };
    }
    match std::fs::symlink_metadata(path) {
        // A daemon moves it aside when it starts, and when it runs.
        Ok(found) if !found.file_type().is_socket() => {
            Check::warn("socket", format!("{place} is no socket; a daemon moves it aside"))
        }
        Ok(found) if found.mode() & 0o077 != 0 => Check::fail(
            "socket",
            format!("{place} has mode {:o}, which is not for one user alone", found.mode() & 0o777),
        )
        .private(path, 0o600),
        Ok(_) if is_held => Check::ok("socket", format!("{place} is there, for this user alone")),
        Ok(_) => Check::ok(
            "socket",
            format!("{place} is there, and nobody listens; the next daemon takes its place"),
        ),
        Err(_) if is_held => {
            Check::fail("socket", format!("{place} is gone; the daemon makes it again in a second"))
                .remedy("lastword daemon restart    # if it does not")
        }
        Err(_) => Check::ok("socket", format!("{place} is not there, since no daemon runs")),
    }
}
