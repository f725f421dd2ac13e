//! Starts a daemon that outlives its starter, and waits for its report.
//!
//! The daemon's stdout is a pipe to us until it has written one line: `ready`, `taken` (another daemon has the lock) or a problem. If the
//! pipe closes without a line, the daemon died; its log says more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use lastword_api::{Code, Problem};
use lastword_proc::Detached;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::LOG;
use super::log;
use crate::environment;
use crate::failure::Failure;
use crate::paths::{self, Paths};

/// How long a daemon may take until it listens: a journal that was not closed properly is checked first.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Attempts to start a daemon that dies before it reports: it was killed, and may be killed again.
const ATTEMPTS_MAX: u32 = 3;

/// The report of a daemon that listens.
pub(super) const READY: &str = "ready";

/// The report of a daemon that found the lock taken.
pub(super) const TAKEN: &str = "taken";

/// The report of a daemon that cannot start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartProblem {
    pub(super) problem: Problem,
    pub(super) next: Vec<String>,
}

/// How to start a daemon.
#[derive(Debug, Default)]
pub(crate) struct StartOptions {
    /// Settings given as flags: `name=value`.
    pub(crate) settings: Vec<String>,
}

/// The result of starting a daemon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It listens.
    Ready,
    /// Another daemon has the lock.
    Taken,
}

/// Starts a daemon and waits until it listens.
pub(crate) async fn start(paths: &Paths, options: &StartOptions) -> Result<Started, Failure> {
    let mut report = String::new();
    for _ in 0..ATTEMPTS_MAX {
        report = start_once(paths, options).await?;
        if !report.is_empty() {
            break;
        }
    }
    parse_report(report.trim_end(), paths)
}

/// Starts a daemon and returns its report; empty if it died before.
async fn start_once(paths: &Paths, options: &StartOptions) -> Result<String, Failure> {
    paths::make_private(&paths.state)?;
    let log_path = paths.in_state(LOG);
    let unwritable = |error: std::io::Error| {
        Failure::new(Code::Unavailable, format!("{}: {error}", log_path.display()))
            .next("make the state folder writable, or choose another with LASTWORD_HOME")
    };
    let errors = log::open(&log_path).map_err(unwritable)?;
    let failed =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot start a daemon: {error}"));
    let (ours, theirs) = std::io::pipe().map_err(failed)?;
    let mut arguments: Vec<String> = ["daemon", "run", "--detached"].map(str::to_owned).to_vec();
    for setting in &options.settings {
        arguments.extend(["--set".to_owned(), setting.clone()]);
    }
    let executable = executable().map_err(failed)?;
    // It runs in `/`, where a relative path would mean something else.
    let home = environment::is_set("LASTWORD_HOME").then(|| ("LASTWORD_HOME", paths.state.clone().into()));
    let variables = home.into_iter().collect();
    Detached { executable: &executable, arguments, variables, output: OwnedFd::from(theirs), errors }
        .start()
        .map_err(failed)?;
    read_report(ours.into()).await.map_err(failed)
}

async fn read_report(pipe: OwnedFd) -> std::io::Result<String> {
    let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
    let mut report = String::new();
    match tokio::time::timeout(READY_TIMEOUT, pipe.read_to_string(&mut report)).await {
        Ok(read) => read.map(|_| report),
        Err(_) => {
            Err(std::io::Error::other(format!("it was not ready within {} s", READY_TIMEOUT.as_secs())))
        }
    }
}

fn parse_report(report: &str, paths: &Paths) -> Result<Started, Failure> {
    match report {
        READY => Ok(Started::Ready),
        TAKEN => Ok(Started::Taken),
        "" => {
            let text = "the daemon died while starting";
            Err(Failure::new(Code::Internal, text)
                .next(format!("its log may say why: {}", paths.in_state(LOG).display())))
        }
        told => {
            let unparsable =
                || StartProblem { problem: Problem::new(Code::Internal, told), next: Vec::new() };
            let StartProblem { problem, next } = serde_json::from_str(told).unwrap_or_else(|_| unparsable());
            let detail = format!("the daemon cannot start: {}", problem.detail);
            Err(Failure { next, ..Failure::of(Problem { detail, ..problem }) })
        }
    }
}

/// Returns the path of this executable; after an upgrade, that of its replacement.
pub(super) fn executable() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    match text.strip_suffix(" (deleted)") {
        Some(replaced) if !path.exists() => Ok(PathBuf::from(replaced)),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_daemon_is_passed_on() {
        let paths =
            Paths { state: "/s".into(), data: "/s".into(), socket: "/s/s".into(), config: "/s/c".into() };
        assert_eq!(parse_report("ready", &paths).expect("ready"), Started::Ready);
        assert_eq!(parse_report("taken", &paths).expect("taken"), Started::Taken);
        let told = StartProblem {
            problem: Problem::new(Code::Corrupt, "torn"),
            next: vec!["restore it".to_owned()],
        };
        let told = serde_json::to_string(&told).expect("JSON");
        let failure = parse_report(&told, &paths).expect_err("a problem");
        assert_eq!(failure.problem.code, Code::Corrupt);
        assert_eq!(failure.text(), "the daemon cannot start: torn\n  restore it");
        assert!(parse_report("", &paths).expect_err("no report").text().contains("/s/daemon.log"));
    }
}
