//! One state folder, the executables of 0.1.0 and of this repository, and the files that jobs leave for the judge.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lastword_api::Job;
use lastword_client::jobs::{self, Filter};
use lastword_client::{Call, FromReply as _, Method, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::jobs::Row;
use crate::clock;
use crate::place::temporary;
use crate::product::Product;
use crate::product::client::Client;
use crate::product::figures::{Stat, runs};

/// Longest wait for anything that must happen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(20);

/// The idempotency key of the job `keyed`.
const KEY: &str = "a key of 0.1.0";

/// Folders with a file for each job. They hold the pids of its starts, its environment, the messages to its agent, that its traps are set,
/// that it may go on (a file and a FIFO), and the order of starts in a group.
const FOLDERS: [&str; 7] = ["runs", "env", "heard", "ready", "go", "gate", "order"];

/// Which executable runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Old,
    New,
}

/// A state folder with its two executables.
pub(super) struct Home {
    place: PathBuf,
    old: Product,
    new: Product,
    /// Job ids by the names of their rows.
    ids: BTreeMap<String, String>,
    /// Kept open, so that a job that opens its gate later still finds the line in it.
    gates: Vec<File>,
    /// Clients of 0.1.0 that stay connected.
    pub(super) clients: Vec<Attached>,
    _folder: TempDir,
}

/// A client of 0.1.0 that stays connected while the daemon is replaced.
pub(super) struct Attached {
    /// Its command line.
    pub(super) line: String,
    pub(super) child: Child,
    /// The file of its standard output.
    pub(super) output: PathBuf,
}

impl Home {
    /// Makes the folders, a git repository and the definitions of agents.
    pub(super) fn new(old: &Path, new: &Path) -> Result<Home, String> {
        let folder = temporary("upgrade")?;
        let place = folder.path().to_owned();
        let failed = |error: std::io::Error| format!("{}: {error}", place.display());
        let mut products = Vec::new();
        for (program, name) in [(old, "old"), (new, "new")] {
            let bin = place.join(name);
            fs::create_dir(&bin).map_err(failed)?;
            fs::copy(program, bin.join("lastword"))
                .map_err(|error| format!("{}: {error}", program.display()))?;
            products.push(Product::at(bin.join("lastword"), &place, &place.join("home"))?);
        }
        for folder in FOLDERS.iter().chain(&["repository"]) {
            fs::create_dir(place.join(folder)).map_err(failed)?;
        }
        fs::write(place.join("job.sh"), include_str!("job.sh")).map_err(failed)?;
        fs::write(place.join("agent.py"), include_str!("agent.py")).map_err(failed)?;
        fs::write(place.join("home/agents.toml"), include_str!("agents.toml")).map_err(failed)?;
        let (new, old) = (products.remove(1), products.remove(0));
        let (ids, gates, clients) = (BTreeMap::new(), Vec::new(), Vec::new());
        let home = Home { place, old, new, ids, gates, clients, _folder: folder };
        home.make_repository()?;
        Ok(home)
    }

    fn make_repository(&self) -> Result<(), String> {
        let script = "git init --quiet --initial-branch=main && echo first > file && git add . && \
                      git -c user.name=Ann -c user.email=a@example.org commit --quiet --message=first";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.repository()).env("HOME", &self.place);
        said(command).map(drop)
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.place.join("repository")
    }

    pub(super) fn product(&self, version: Version) -> &Product {
        match version {
            Version::Old => &self.old,
            Version::New => &self.new,
        }
    }

    pub(super) fn client(&self) -> Client {
        self.old.client()
    }

    /// Returns the id of a job.
    pub(super) fn id(&self, name: &str) -> Result<&str, String> {
        self.ids.get(name).map(String::as_str).ok_or_else(|| format!("there is no job {name} yet"))
    }

    /// Returns the lines that a job wrote to its file in one of the folders.
    pub(super) fn lines(&self, folder: &str, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.place.join(folder).join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns a command that runs in the repository. Jobs find `PLACE` and `JOB` in their environment.
    fn command(&self, version: Version, job: &str, words: &[impl AsRef<str>]) -> Command {
        let product = self.product(version);
        let inner = product.command(&words.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
        // A command that hangs is killed and fails.
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120"]).arg(inner.get_program()).args(inner.get_args());
        command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PLACE", &self.place).env("JOB", job).env("LASTWORD", product.program());
        command.current_dir(self.repository()).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(super) fn ask(&self, version: Version, words: &[impl AsRef<str>]) -> Result<String, String> {
        said(self.command(version, "", words))
    }

    /// Runs a command to its end.
    pub(super) fn run(&self, version: Version, words: &[&str]) -> Result<Output, String> {
        self.command(version, "", words).output().map_err(|error| error.to_string())
    }

    /// Makes the job of a row.
    pub(super) fn make(&mut self, row: &Row, version: Version) -> Result<(), String> {
        let gate = self.place.join("gate").join(&row.name);
        let mut mkfifo = Command::new("mkfifo");
        mkfifo.arg(&gate);
        said(mkfifo)?;
        let id = match row.name.as_str() {
            "keyed" => Job::from_reply(self.submit_keyed()?)?.id,
            "attached" => {
                let script = ". \"$PLACE/job.sh\"; count; exit 4";
                self.attach("attached", &["run", "--name", "attached", "--", "sh", "-c", script])?;
                self.found("attached")?
            }
            _ if row.ask.is_empty() => self.found(&row.name)?,
            _ => {
                let words = row.ask.iter().map(|word| self.fill_in(row, word));
                let words: Vec<String> = words.collect::<Result<_, _>>()?;
                said(self.command(version, &row.name, &words))?
            }
        };
        self.ids.insert(row.name.clone(), id);
        Ok(())
    }

    /// Starts a client of 0.1.0 that stays connected.
    pub(super) fn attach(&mut self, job: &str, words: &[&str]) -> Result<(), String> {
        let output = self.place.join(format!("client-{}", self.clients.len()));
        let failed = |error: std::io::Error| format!("{}: {error}", output.display());
        let file = File::create(&output).map_err(failed)?;
        let mut command = self.old.command(words);
        command.env("PLACE", &self.place).env("JOB", job).current_dir(self.repository());
        let child = command.stdout(file).stderr(Stdio::null()).spawn().map_err(failed)?;
        self.clients.push(Attached { line: words.join(" "), child, output });
        Ok(())
    }

    /// Submits the job `keyed` through the API.
    pub(super) fn submit_keyed(&self) -> Result<Reply, String> {
        self.submit_under_key(". \"$PLACE/job.sh\"; count")
    }

    /// Submits a script under the key of the job `keyed`.
    pub(super) fn submit_under_key(&self, script: &str) -> Result<Reply, String> {
        let body = json!({
            "name": "keyed",
            "argv": ["sh", "-c", script],
            "cwd": self.repository(),
            "env": { "PATH": "/usr/local/bin:/usr/bin:/bin", "PLACE": self.place, "JOB": "keyed" },
        });
        // As 0.1.0 was asked: the fields of its requests, and no others.
        let call: Call<()> = Call::new(Method::POST, "/v1/jobs").with_body(&body).with_key(KEY);
        self.client().send(&call).map_err(|why| format!("the keyed request: {why}"))
    }

    /// Waits for a job of a name, and returns its id.
    fn found(&self, name: &str) -> Result<String, String> {
        let mut client = self.client();
        self.until(&format!("there is a job {name}"), || {
            let named = Filter { name: Some(name.to_owned()), ..Filter::default() };
            client.call(&jobs::list(&named)).ok()?.items.into_iter().next().map(|row| row.id)
        })
    }

    /// Takes a step of a row: one of the words below, or a command line.
    pub(super) fn step(&mut self, row: &Row, step: &str, version: Version) -> Result<(), String> {
        let at = |why: String| format!("{}: `{step}`: {why}", row.name);
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match (verb, rest) {
            ("go", "") => self.go(&row.name),
            ("go", other) => self.go(other),
            ("started", _) => self.until(&format!("{} has started", row.name), || {
                (!self.lines("runs", &row.name).is_empty()).then_some(())
            }),
            ("ready", _) => {
                let file = self.place.join("ready").join(&row.name);
                self.until(&format!("{} is ready", row.name), || file.exists().then_some(()))
            }
            ("until", condition) => self.until_holds(&row.name, condition),
            ("heard", line) => self.until(&format!("{} heard {line}", row.name), || {
                self.lines("heard", &row.name).iter().any(|heard| heard == line).then_some(())
            }),
            ("stored", file) => self.until(&format!("{}: {file} is there", row.name), || {
                self.stored(&row.name, file).ok().map(drop)
            }),
            // It exits with 124, since the job has not ended.
            ("stop", _) => self.run(version, &["cancel", "--no-wait", self.id(&row.name)?]).map(drop),
            ("lose", _) => self.lose(&row.name),
            _ => {
                let words = step.split_whitespace().map(|word| self.fill_in(row, word));
                let words: Vec<String> = words.collect::<Result<_, _>>().map_err(at)?;
                self.ask(version, &words).map(drop).map_err(at)
            }
        }
    }

    /// Reads a file that a daemon keeps for a job.
    pub(super) fn stored(&self, name: &str, file: &str) -> Result<Vec<u8>, String> {
        let file = self.place.join("home/jobs").join(self.id(name)?).join(file);
        fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Replaces `{NAME}` by the id of that job.
    fn fill_in(&self, row: &Row, word: &str) -> Result<String, String> {
        match (word.find('{'), word.find('}')) {
            (Some(open), Some(close)) if open < close && !word.contains(' ') => {
                let name = &word[open + 1..close];
                let id = self.id(if name.is_empty() { &row.name } else { name })?;
                Ok(format!("{}{id}{}", &word[..open], &word[close + 1..]))
            }
            _ => Ok(word.to_owned()),
        }
    }

    /// Lets a job go on: one that counts by a file, one that holds by its gate.
    fn go(&mut self, name: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("letting {name} go on: {error}");
        fs::write(self.place.join("go").join(name), "").map_err(failed)?;
        let gate = self.place.join("gate").join(name);
        let mut gate = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(gate)
            .map_err(failed)?;
        gate.write_all(b"go\n").map_err(failed)?;
        self.gates.push(gate);
        Ok(())
    }

    /// Waits until a condition holds for a job.
    pub(super) fn until_holds(&self, name: &str, condition: &str) -> Result<(), String> {
        let call = jobs::show(self.id(name)?).untyped();
        let (mut client, mut last) = (self.client(), Value::Null);
        let held = clock::until(PATIENCE, PAUSE, || {
            last = client.call(&call).ok()?;
            holds(&last, condition).then_some(())
        });
        held.ok_or_else(|| format!("{name}: `{condition}` did not hold within {PATIENCE:?}: {last}"))
    }

    /// Waits until `look` finds something.
    pub(super) fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> Result<T, String> {
        clock::until(PATIENCE, PAUSE, look).ok_or_else(|| format!("{what}: not within {PATIENCE:?}"))
    }

    /// Kills a job's guard, shim and leader, so that its exit status is lost.
    fn lose(&self, name: &str) -> Result<(), String> {
        let lines = self.lines("runs", name);
        let leader: i32 = lines.last().and_then(|line| line.parse().ok()).ok_or("it was not started")?;
        let parent = |pid: i32| Stat::of(pid).map(|stat| stat.parent).ok_or(format!("{name}: no keeper"));
        let shim = parent(leader)?;
        let guard = parent(shim)?;
        for pid in [guard, shim, leader] {
            kill(pid, libc::SIGKILL);
        }
        let is_gone = |pid: i32| Stat::of(pid).is_none_or(|stat| !stat.is_alive());
        self.until(&format!("{name} is gone"), || {
            [guard, shim, leader].into_iter().all(is_gone).then_some(())
        })
    }

    /// Reports whether a process runs 0.1.0; `None` if its executable cannot be read.
    pub(super) fn runs_old(&self, pid: i32) -> Option<bool> {
        fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        Some(runs(pid, self.old.program()))
    }

    /// Returns every living process of either executable and of their jobs.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mut pids = self.old.processes();
        pids.extend(self.new.processes().into_iter().filter(|pid| !pids.contains(pid)).collect::<Vec<_>>());
        pids
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.child.kill();
            let _ = client.child.wait();
        }
        self.new.tear_down();
        self.old.tear_down();
    }
}

/// Reports whether a condition holds for a job.
pub(super) fn holds(shown: &Value, condition: &str) -> bool {
    let Some((pointer, wanted)) = condition.split_once('=') else { return false };
    match shown.pointer(pointer) {
        None => wanted == "null",
        Some(Value::String(text)) => text == wanted,
        Some(other) => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *other),
    }
}

/// Signals a process.
pub(super) fn kill(pid: i32, signal: i32) {
    // SAFETY: a signal to a process of this trial: a daemon, a client, or a job and its keeper.
    unsafe { libc::kill(pid, signal) };
}

/// Runs a command that must succeed, and returns what it printed.
fn said(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => {
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            let error = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
            Err(format!("`{}`: {}: {error}", words.join(" "), output.status))
        }
    }
}
