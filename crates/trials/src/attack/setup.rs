//! The parties of an attack: a user with the product, another user, and hostile jobs of the first.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::attacker;
use super::bug::Bug;
use super::parties::Parties;
use crate::clock;
use crate::place::{self, Programs};
use crate::product::{MARKER, Product};

/// The user under attack.
pub(super) const OWNER: u32 = 54_321;

/// Another user.
pub(super) const STRANGER: u32 = 54_322;

/// The longest until something that must happen has.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// The setup: one installation of the user that runs all along, and room for others.
pub(super) struct Setup {
    pub(super) bug: Option<Bug>,
    pub(super) short: bool,
    pub(super) programs: Programs,
    /// The user's own: its daemon runs.
    pub(super) home: Home,
    // Removed after all that is in it was torn down.
    folder: TempDir,
}

/// An installation of the user, torn down with everything it started.
pub(super) struct Home(pub(super) Product);

impl Drop for Home {
    fn drop(&mut self) {
        self.0.tear_down();
    }
}

/// An attacker that goes on until it is no longer needed.
pub(super) struct Lurker(pub(super) Child);

impl Drop for Lurker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Parties for Setup {
    fn place(&self) -> &Path {
        self.folder.path()
    }
}

impl Setup {
    /// Sets it, with the user's daemon.
    pub(super) fn new(bug: Option<Bug>, short: bool) -> Result<Setup, String> {
        let folder = place::temporary("attack")?;
        let programs = Programs::beside()?.copy_to(&folder.path().join("programs"))?;
        let home = install(&programs, folder.path(), "home")?;
        let setup = Setup { bug, short, programs, home, folder };
        setup.home.0.said(&["daemon", "start"])?;
        Ok(setup)
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns another installation of the user, whose daemon does not run yet.
    pub(super) fn another(&self, name: &str) -> Result<Home, String> {
        install(&self.programs, self.folder.path(), name)
    }

    /// Makes a folder with this owner and mode.
    pub(super) fn folder(&self, name: &str, user: u32, mode: u32) -> Result<PathBuf, String> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
        chown(&path, Some(user), Some(user)).map_err(at(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
        Ok(path)
    }

    /// Returns an attacker, as a process of this user.
    pub(super) fn attacker(&self, user: u32, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.programs.trials);
        command.arg(attacker::VERB).args(words).uid(user).gid(user).current_dir("/");
        command.env_clear().env("PATH", "/usr/bin:/bin").env(MARKER, self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Has an attacker do something, and returns what came of it.
    pub(super) fn attack(&self, user: u32, words: &[impl AsRef<OsStr>]) -> Result<String, String> {
        let said = self.attacker(user, words).output().map_err(|error| format!("an attacker: {error}"))?;
        match said.status.success() {
            true => Ok(text(&said.stdout)),
            false => Err(format!("an attacker failed: {}", text(&said.stderr))),
        }
    }

    /// Has an attacker do something as a job of the user, and returns what it said.
    pub(super) fn inside(&self, home: &Home, words: &[impl AsRef<OsStr>]) -> Result<String, String> {
        if self.has(Bug::JobsAreNotScoped) {
            return self.attack(OWNER, words);
        }
        let program = [OsStr::new("run"), OsStr::new("--"), self.programs.trials.as_os_str()];
        let words = words.iter().map(AsRef::as_ref);
        let all: Vec<&OsStr> = program.into_iter().chain([OsStr::new(attacker::VERB)]).chain(words).collect();
        let said = home.0.run(&all)?;
        match said.status.success() {
            true => Ok(text(&said.stdout)),
            false => Err(format!("a job failed: {} {}", text(&said.stdout), text(&said.stderr))),
        }
    }

    /// Starts an attacker that says one line when it is ready, and goes on.
    pub(super) fn lurker(&self, user: u32, words: &[impl AsRef<OsStr>]) -> Result<Lurker, String> {
        use std::io::{BufRead as _, BufReader};
        let child = self.attacker(user, words).stdout(Stdio::piped()).spawn();
        let mut lurker = Lurker(child.map_err(|error| format!("an attacker: {error}"))?);
        let mut said = String::new();
        let stdout = lurker.0.stdout.as_mut().ok_or("an attacker has no output")?;
        BufReader::new(stdout).read_line(&mut said).map_err(|error| format!("an attacker: {error}"))?;
        match said.trim() {
            "ready" => Ok(lurker),
            other => Err(format!("an attacker did not get ready: {other:?}")),
        }
    }

    /// Sends a body to the API of an installation as the user, byte for byte, and returns status and code.
    pub(super) fn post(&self, home: &Home, path: &str, body: &[u8]) -> Result<String, String> {
        let file = self.folder.path().join("body");
        fs::write(&file, body).map_err(at(&file))?;
        let (socket, file) = (home.socket(), file.display().to_string());
        self.attack(OWNER, &["post", &socket.display().to_string(), path, &file])
    }

    /// Asks the API of an installation as a user, and returns status and code of the answer, or why there is none.
    pub(super) fn ask(&self, user: u32, home: &Home, request: &[&str]) -> Result<String, String> {
        let socket = home.socket();
        let words: Vec<&OsStr> = [OsStr::new("ask"), socket.as_os_str()]
            .into_iter()
            .chain(request.iter().map(OsStr::new))
            .collect();
        self.attack(user, &words)
    }
}

fn install(programs: &Programs, folder: &Path, name: &str) -> Result<Home, String> {
    let place = folder.join(format!("of-{name}"));
    fs::create_dir_all(&place).map_err(at(&place))?;
    let product = Product::install(&programs.lastword, &place, &place.join("home"))?;
    Ok(Home(product.given_to(OWNER)?))
}

impl Home {
    /// Returns where its daemon listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.0.home().join("lastword.sock")
    }

    /// Runs a verb that must be refused, and returns what was said.
    pub(super) fn refused(&self, words: &[&str]) -> Result<String, String> {
        refused(&self.0.run(words)?)
    }

    /// Runs a verb with `--json`, and returns what was printed.
    pub(super) fn json(&self, words: &[&str]) -> Result<Value, String> {
        let text = self.0.said(&[words, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| format!("{words:?}: {error}: {text}"))
    }

    /// Waits for something of a job that `show` shows.
    pub(super) fn until<T>(&self, job: &str, what: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        let mut last = Value::Null;
        clock::until(PATIENCE, LOOK, || {
            last = self.json(&["show", job]).unwrap_or_default();
            what(&last)
        })
        .ok_or_else(|| format!("{job} does not come to it: {last}"))
    }
}

/// Takes what was said by a program that must have refused something.
pub(super) fn refused(output: &Output) -> Result<String, String> {
    match output.status.success() {
        true => Err(format!("it was not refused: {}{}", text(&output.stdout), text(&output.stderr))),
        false => Ok(text(&output.stderr).trim_start_matches("lastword: ").to_owned()),
    }
}

/// Makes sure that something was said.
pub(super) fn says(said: &str, words: &str) -> Result<String, String> {
    match said.contains(words) {
        true => Ok(said.lines().find(|line| line.contains(words)).unwrap_or(words).trim().to_owned()),
        false => Err(format!("{said:?} does not say `{words}`")),
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// Names the path that something failed at.
pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
