//! task-spooler and pueue, as their users run them: a server of their own in a temporary folder, a client for each job.
//!
//! What this machine does not have is fetched into a cache outside the repository; what cannot be fetched is left out, and the
//! table says so.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::command::quiet;
use super::folders::Folders;
use super::timed::timed;
use crate::clock;
use crate::place;
use crate::product::figures;

/// The longest until a server answers, or until the last job is done.
const PATIENCE: Duration = Duration::from_secs(120);

/// The version the figures in the documents are of.
const PUEUE_VERSION: &str = "4.0.4";

/// Debian's task-spooler.
pub(super) struct TaskSpooler {
    program: PathBuf,
}

impl TaskSpooler {
    /// Finds it, or fetches the package and unpacks it; nothing is installed.
    pub(super) fn find() -> Result<TaskSpooler, String> {
        if quiet(Command::new("tsp").arg("-V")).is_ok() {
            return Ok(TaskSpooler { program: "tsp".into() });
        }
        let cache = place::cache("lastword-trials/task-spooler")?;
        let program = cache.join("usr/bin/tsp");
        if !program.is_file() {
            quiet(Command::new("apt-get").args(["download", "task-spooler"]).current_dir(&cache))?;
            quiet(Command::new("sh").args(["-c", "dpkg -x task-spooler_*.deb ."]).current_dir(&cache))?;
        }
        Ok(TaskSpooler { program })
    }

    /// Runs so many `true` on a server of their own.
    pub(super) fn run(&self, folders: &Folders, at_once: usize, jobs: usize) -> Result<f64, String> {
        self.serve(folders, at_once)?.work(at_once, jobs)
    }

    /// Starts a server of its own, which runs so many at once.
    pub(super) fn serve(&self, folders: &Folders, at_once: usize) -> Result<Spooling, String> {
        let spooling = Spooling { program: self.program.clone(), folder: folders.folder()? };
        quiet(&mut spooling.client(&["-S", &at_once.to_string()]))?;
        Ok(spooling)
    }
}

/// A server of task-spooler, which ends with its value.
pub(super) struct Spooling {
    program: PathBuf,
    folder: PathBuf,
}

impl Spooling {
    /// Runs so many `true`; a last job says when they are done. Returns how many a second.
    pub(super) fn work(&self, at_once: usize, jobs: usize) -> Result<f64, String> {
        to_the_last(&self.folder, at_once, jobs, |words| quiet(&mut self.client(words)))
    }

    /// Returns a command of its client.
    pub(super) fn client(&self, words: &[&str]) -> Command {
        let mut client = Command::new(&self.program);
        client.args(words).env("TS_SOCKET", self.folder.join("socket")).env("TMPDIR", &self.folder);
        client
    }

    /// Returns the number of the server, found by the socket it was given.
    pub(super) fn pid(&self) -> Option<i32> {
        let place = self.folder.as_os_str().as_encoded_bytes();
        figures::living().into_iter().find(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "tsp" && environment.windows(place.len()).any(|piece| piece == place)
        })
    }
}

impl Drop for Spooling {
    fn drop(&mut self) {
        let _ = quiet(&mut self.client(&["-K"]));
    }
}

/// pueue, from its crate.
pub(super) struct Pueue {
    folder: PathBuf,
}

impl Pueue {
    /// Finds it, or builds it, which takes minutes.
    pub(super) fn find(may_build: bool) -> Result<Pueue, String> {
        if quiet(Command::new("pueued").arg("--version")).is_ok() {
            return Ok(Pueue { folder: PathBuf::new() });
        }
        let cache = place::cache("lastword-trials/pueue")?;
        let folder = cache.join("bin");
        if !folder.join("pueued").is_file() {
            if !may_build {
                return Err("it is not there, and the short form does not build it".to_owned());
            }
            println!("building pueue {PUEUE_VERSION}, once");
            let crate_name = format!("pueue@{PUEUE_VERSION}");
            quiet(Command::new("cargo").args(["install", "--locked", &crate_name, "--root"]).arg(&cache))?;
        }
        Ok(Pueue { folder })
    }

    /// Runs so many `true` on a server of their own.
    pub(super) fn run(&self, folders: &Folders, at_once: usize, jobs: usize) -> Result<f64, String> {
        self.serve(folders, at_once)?.work(at_once, jobs)
    }

    /// Starts a server of its own, which runs so many at once.
    pub(super) fn serve(&self, folders: &Folders, at_once: usize) -> Result<Queueing, String> {
        let folder = folders.folder()?;
        let mut server = in_folder(&self.folder.join("pueued"), &folder);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = server.map_err(|error| format!("pueued: {error}"))?;
        let queueing = Queueing { client: self.folder.join("pueue"), folder, server };
        let begin = Instant::now();
        while let Err(why) = quiet(&mut queueing.client(&["parallel", &at_once.to_string()])) {
            if begin.elapsed() > PATIENCE {
                return Err(why);
            }
        }
        Ok(queueing)
    }
}

/// A command that knows no other home than this folder.
fn in_folder(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, folder);
    }
    command
}

/// A server of pueue, which ends with its value.
pub(super) struct Queueing {
    client: PathBuf,
    folder: PathBuf,
    server: Child,
}

impl Queueing {
    /// Runs so many `true`; a last job says when they are done. Returns how many a second.
    pub(super) fn work(&self, at_once: usize, jobs: usize) -> Result<f64, String> {
        to_the_last(&self.folder, at_once, jobs, |words| {
            quiet(&mut self.client(&[&["add", "--"], words].concat()))
        })
    }

    /// Returns a command of its client.
    pub(super) fn client(&self, words: &[&str]) -> Command {
        let mut client = in_folder(&self.client, &self.folder);
        client.args(words);
        client
    }

    /// Returns the number of the server.
    pub(super) fn pid(&self) -> i32 {
        self.server.id() as i32
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Queues `jobs` and one more that makes a file, and returns the rate until the file is there.
fn to_the_last(
    folder: &Path,
    at_once: usize,
    jobs: usize,
    queue: impl Fn(&[&str]) -> Result<(), String> + Sync,
) -> Result<f64, String> {
    let done = folder.join("done");
    let begin = Instant::now();
    timed(at_once, jobs, |_| queue(&["true"]))?;
    queue(&["touch", &done.to_string_lossy()])?;
    while !done.exists() {
        if begin.elapsed() > PATIENCE {
            return Err("the last job was never done".to_owned());
        }
        clock::rest(clock::MOMENT);
    }
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

/// What others have, as far as it can be had here.
pub(super) struct Rivals {
    pub(super) spooler: Option<TaskSpooler>,
    pub(super) pueue: Option<Pueue>,
}

impl Rivals {
    pub(super) fn find(may_build: bool) -> Rivals {
        let had = |name: &str, why: &String| println!("{name} cannot be had: {why}");
        let spooler = TaskSpooler::find().inspect_err(|why| had("task-spooler", why)).ok();
        let pueue = Pueue::find(may_build).inspect_err(|why| had("pueue", why)).ok();
        Rivals { spooler, pueue }
    }
}
