//! Starting a daemon that outlives whoever started it, and hearing from it whether it could.
//!
//! Its standard output is a pipe to us until it has said one line: `ready`, `taken` (another daemon was faster), or a problem.
//! A pipe that closes without a line is a daemon that died; its log says more.

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
use crate::ui::Ui;

/// How long a daemon may take until it listens: a journal that was not closed in order is read through first.
const READY_MAX: Duration = Duration::from_secs(60);

/// How often a daemon is started that ends before it has said anything: it was killed, and whoever did that may do it again.
const TRIES_MAX: u32 = 3;

/// What a daemon says when it listens.
pub(super) const READY: &str = "ready";

/// What it says when another has the lock.
pub(super) const TAKEN: &str = "taken";

/// What it says when it cannot start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) problem: Problem,
    pub(super) next: Vec<String>,
}

/// How to start it.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    /// Settings given as flags: `name=value`.
    pub(crate) settings: Vec<String>,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It listens.
    Ready,
    /// Another daemon was faster.
    Taken,
}

/// Starts a daemon and waits until it listens.
pub(crate) async fn start(paths: &Paths, wish: &Wish, _: &Ui) -> Result<Started, Failure> {
    let mut said = String::new();
    for _ in 0..TRIES_MAX {
        said = start_once(paths, wish).await?;
        if !said.is_empty() {
            break;
        }
    }
    judge(said.trim_end(), paths)
}

/// Starts a daemon, and returns what it said when it listened or could not; nothing, if it was killed before.
async fn start_once(paths: &Paths, wish: &Wish) -> Result<String, Failure> {
    paths::make_private(&paths.state)?;
    let log_path = paths.in_state(LOG);
    let unwritable = |error: std::io::Error| {
        Failure::new(Code::Unavailable, format!("{}: {error}", log_path.display()))
            .next("the state folder must be writable; LASTWORD_HOME chooses another")
    };
    let errors = log::open(&log_path).map_err(unwritable)?;
    let failed =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot start a daemon: {error}"));
    let (ours, theirs) = std::io::pipe().map_err(failed)?;
    let mut arguments: Vec<String> = ["daemon", "run", "--detached"].map(str::to_owned).to_vec();
    for setting in &wish.settings {
        arguments.extend(["--set".to_owned(), setting.clone()]);
    }
    let executable = executable().map_err(failed)?;
    // It runs in another folder, where a path that does not begin at the root leads elsewhere.
    let home = environment::is_set("LASTWORD_HOME").then(|| ("LASTWORD_HOME", paths.state.clone().into()));
    let variables = home.into_iter().collect();
    Detached { executable: &executable, arguments, variables, output: OwnedFd::from(theirs), errors }
        .start()
        .map_err(failed)?;
    hear(ours.into()).await.map_err(failed)
}

async fn hear(pipe: OwnedFd) -> std::io::Result<String> {
    let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
    let mut said = String::new();
    match tokio::time::timeout(READY_MAX, pipe.read_to_string(&mut said)).await {
        Ok(read) => read.map(|_| said),
        Err(_) => Err(std::io::Error::other(format!("it did not listen within {} s", READY_MAX.as_secs()))),
    }
}

fn judge(said: &str, paths: &Paths) -> Result<Started, Failure> {
    match said {
        READY => Ok(Started::Ready),
        TAKEN => Ok(Started::Taken),
        "" => {
            let text = "the daemon ended while it started, without saying why";
            Err(Failure::new(Code::Internal, text)
                .next(format!("its log says more: {}", paths.in_state(LOG).display())))
        }
        told => {
            let silent = || Told { problem: Problem::new(Code::Internal, told), next: Vec::new() };
            let Told { problem, next } = serde_json::from_str(told).unwrap_or_else(|_| silent());
            let detail = format!("the daemon cannot start: {}", problem.detail);
            Err(Failure { next, ..Failure::of(Problem { detail, ..problem }) })
        }
    }
}

/// Returns this program's own file; after an upgrade the one that took its place.
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
    fn what_a_daemon_says_is_passed_on() {
        let paths =
            Paths { state: "/s".into(), data: "/s".into(), socket: "/s/s".into(), config: "/s/c".into() };
        assert_eq!(judge("ready", &paths).expect("ready"), Started::Ready);
        assert_eq!(judge("taken", &paths).expect("taken"), Started::Taken);
        let told = Told { problem: Problem::new(Code::Corrupt, "torn"), next: vec!["mend it".to_owned()] };
        let told = serde_json::to_string(&told).expect("JSON");
        let failure = judge(&told, &paths).expect_err("a problem");
        assert_eq!(failure.problem.code, Code::Corrupt);
        assert_eq!(failure.words(), "the daemon cannot start: torn\n  mend it");
        assert!(judge("", &paths).expect_err("silence").words().contains("/s/daemon.log"));
    }
}
