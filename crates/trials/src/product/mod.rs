//! The whole product on trial, as a user has it: the executable that ships, a state folder of its own, the command line
//! and the API. Nothing here looks behind those two.
//!
//! - [`client`]: calls of the API.
//! - [`figures`]: what the kernel says of a process: memory, descriptors, time.

pub(crate) mod client;
pub(crate) mod figures;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lastword_client::daemon;

use crate::clock;
use client::Client;

/// The longest until a daemon that was asked for answers: on a busy machine, with some hundred jobs to look for.
const START_MAX: Duration = Duration::from_secs(60);

/// Seconds after which a command hangs.
const COMMAND_MAX_S: &str = "90";

/// How often it is looked whether a daemon is there.
const LOOK: Duration = Duration::from_millis(5);

/// In the environment of everything that a product starts: by it, whatever is left of a run is found.
pub(crate) const MARKER: &str = "TRIAL_OF_LASTWORD";

/// One installation: an executable and a home.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// Everything of it lies below, and is named after it.
    place: PathBuf,
    program: PathBuf,
    home: PathBuf,
    /// What its commands have in their environment beside what they need.
    environment: Vec<(String, OsString)>,
    /// The user that runs it, if it is not the user that runs the trial.
    user: Option<u32>,
}

impl Product {
    /// Installs a copy of the executable into `folder`, so that its processes are known by it, with its state in `home`.
    pub(crate) fn install(lastword: &Path, folder: &Path, home: &Path) -> Result<Product, String> {
        let failed = |what: &Path| {
            let what = what.display().to_string();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).map_err(failed(&bin))?;
        let program = bin.join("lastword");
        // By a process of its own: if this one had the copy open for writing while another thread forks, its first start would fail with
        // "text file busy".
        let copied =
            Command::new("cp").arg("--").arg(lastword).arg(&program).status().map_err(failed(&program))?;
        if !copied.success() {
            return Err(format!("{} cannot be copied to {}", lastword.display(), program.display()));
        }
        Product::at(program, folder, home)
    }

    /// Takes an executable that lies in `folder` already.
    pub(crate) fn at(program: PathBuf, folder: &Path, home: &Path) -> Result<Product, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", home.display());
        fs::create_dir_all(home).map_err(failed)?;
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(home, private).map_err(failed)?;
        let (place, home) = (folder.to_owned(), home.to_owned());
        Ok(Product { place, program, home, environment: Vec::new(), user: None })
    }

    /// Has all its commands, and the jobs they ask for, know this too.
    pub(crate) fn with_environment(self, environment: Vec<(String, OsString)>) -> Product {
        Product { environment, ..self }
    }

    /// Gives it to another user. Only root can, and only that user's processes are answered from then on.
    pub(crate) fn given_to(self, user: u32) -> Result<Product, String> {
        chown(&self.home, Some(user), Some(user))
            .map_err(|error| format!("{}: {error}", self.home.display()))?;
        Ok(Product { user: Some(user), ..self })
    }

    /// Returns the executable.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the folder of everything.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the state folder.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns a client of the API.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.home.join("lastword.sock"))
    }

    /// Returns a command of this product, as from a script: no terminal, and nothing but what it needs in its environment.
    pub(crate) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.other_command(&self.program);
        command.args(words);
        command
    }

    /// Returns a command of another program, in the environment and by the user of this product.
    pub(crate) fn other_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env_clear();
        command.env("LASTWORD_HOME", &self.home).env("HOME", &self.home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env(MARKER, &self.place);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.becomes_user(&mut command);
        command
    }

    /// Runs a command to its end, or to the end of all patience: then it is killed, and its status says so.
    pub(crate) fn run(&self, words: &[impl AsRef<OsStr>]) -> Result<Output, String> {
        self.run_to_end(&self.command(words))
    }

    /// Runs a command of this product, in whatever environment it was given.
    pub(crate) fn run_to_end(&self, command: &Command) -> Result<Output, String> {
        let mut patient = Command::new("timeout");
        patient.args(["--signal=KILL", COMMAND_MAX_S]).arg(command.get_program()).args(command.get_args());
        patient.stdin(Stdio::null()).env_clear();
        patient.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.becomes_user(&mut patient);
        patient.output().map_err(|error| format!("{}: {error}", self.program.display()))
    }

    fn becomes_user(&self, command: &mut Command) {
        if let Some(user) = self.user {
            command.uid(user).gid(user).current_dir("/");
        }
    }

    /// Runs a command that must succeed, and returns what it said.
    pub(crate) fn said(&self, words: &[&str]) -> Result<String, String> {
        let output = self.run(words)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(format!(
                "lastword {}: {}: {}",
                words.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            )),
        }
    }

    /// Starts the daemon, if there is none, and waits until it serves.
    pub(crate) fn start(&self) -> Result<(), String> {
        self.said(&["daemon", "start"])?;
        self.until_ready()
    }

    /// Waits until the daemon serves.
    pub(crate) fn until_ready(&self) -> Result<(), String> {
        let mut client = self.client();
        let ready =
            clock::until(START_MAX, LOOK, || client.call(&daemon::show()).ok().filter(|daemon| daemon.ready));
        ready.map(|_| ()).ok_or_else(|| "the daemon does not get ready".to_owned())
    }

    /// Returns the number of the daemon, if it answers.
    pub(crate) fn daemon(&self) -> Option<i32> {
        i32::try_from(self.client().call(&daemon::show()).ok()?.pid).ok()
    }

    /// Stops daemon and jobs, and kills what is left of this installation. Reports how many had to be killed.
    pub(crate) fn tear_down(&self) -> usize {
        let _ = self.run(&["cancel", "--all", "--force"]);
        let _ = self.run(&["daemon", "stop"]);
        self.kill_all()
    }

    /// Kills every process of this installation, and reports how many there were.
    pub(crate) fn kill_all(&self) -> usize {
        let mut killed = 0;
        // Until none is left: a process forked after the list was read is found by the next look.
        clock::until(START_MAX, LOOK, || {
            let left = self.processes();
            killed += left.len();
            for pid in &left {
                // SAFETY: a signal to a process that runs our own copy or carries our marker.
                unsafe { libc::kill(*pid, libc::SIGKILL) };
            }
            left.is_empty().then_some(())
        });
        killed
    }

    /// Returns every living process that runs this copy of the executable, or carries its marker.
    pub(crate) fn processes(&self) -> Vec<i32> {
        figures::living().into_iter().filter(|pid| self.owns(*pid)).collect()
    }

    /// Reports whether a process belongs to this installation.
    pub(crate) fn owns(&self, pid: i32) -> bool {
        figures::runs(pid, &self.program) || self.marks(pid)
    }

    /// Reports whether a process carries the marker, or names a place of this installation.
    pub(crate) fn marks(&self, pid: i32) -> bool {
        let place = self.place.as_os_str().as_encoded_bytes();
        ["environ", "cmdline"].iter().any(|file| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(place.len()).any(|piece| piece == place)
        })
    }
}

/// Returns the words of the line that `fleet add` printed.
pub(crate) fn enrol_line(said: &str) -> Result<Vec<&str>, String> {
    let line = said.lines().find_map(|line| line.strip_prefix("lastword "));
    Ok(line.ok_or_else(|| format!("no line to run in {said:?}"))?.split_whitespace().collect())
}
