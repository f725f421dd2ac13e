//! The installation in which a row is re-enacted, used as a user uses it: commands, scripts, files, signals.
//!
//! If the trial runs as root, the installation belongs to an ordinary user, since root is bound by no file mode.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::clock;
use crate::place;
use crate::product::Product;
use crate::product::figures::Stat;

/// The ordinary user.
pub(super) const USER: u32 = 54_323;

/// The longest wait for what a re-enactment needs, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait for what a row is judged by. It is waited for in full only if it does not happen.
pub(super) const SOON: Duration = Duration::from_secs(15);

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// An executable with a state folder and a folder for the files of jobs. All its processes are killed when it is dropped.
pub(super) struct Home {
    product: Product,
    has_own_disk: bool,
    // Removed after its processes are gone.
    _folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Ran {
    /// -1 if it was killed.
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

/// A command that is still running, with its standard output in a file.
pub(super) struct Follower {
    child: Child,
    file: PathBuf,
}

impl Home {
    /// Installs an executable.
    pub(super) fn new(program: &Path) -> Result<Home, String> {
        let folder = place::temporary("record")?;
        let (state, work) = (folder.path().join("home"), folder.path().join("work"));
        fs::create_dir(&work).map_err(at(&work))?;
        let mut product = Product::install(program, folder.path(), &state)?;
        if rustix::process::geteuid().is_root() {
            chown(&work, Some(USER), Some(USER)).map_err(at(&work))?;
            product = product.given_to(USER)?;
        }
        let place =
            vec![("PLACE".to_owned(), work.into()), ("LASTWORD".to_owned(), product.program().into())];
        Ok(Home { product: product.with_environment(place), has_own_disk: false, _folder: folder })
    }

    /// Puts the state folder on a disk of 24 MiB. Only root can.
    pub(super) fn with_small_disk(mut self) -> Result<Home, String> {
        let options = format!("size=24m,mode=0700,uid={USER},gid={USER}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "lastword-record"]).arg(self.state());
        said(mount.output())?.succeeded("mount")?;
        self.has_own_disk = true;
        Ok(self)
    }

    /// Returns the state folder.
    pub(super) fn state(&self) -> &Path {
        self.product.home()
    }

    /// Returns a path for a file of a job: `$PLACE/NAME` in scripts.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.product.place().join("work").join(name)
    }

    /// Runs a command of the product.
    pub(super) fn run(&self, words: &[&str]) -> Result<Ran, String> {
        said(Ok(self.product.run(words)?))
    }

    /// Runs a script of the user. `$LASTWORD` is the executable, `$PLACE` the folder for files.
    pub(super) fn shell(&self, script: &str) -> Result<Ran, String> {
        let mut command = self.product.other_command("sh");
        command.args(["-c", script]);
        said(Ok(self.product.run_to_end(&command)?))
    }

    /// Runs a command that must succeed, and returns its output.
    pub(super) fn ok(&self, words: &[&str]) -> Result<String, String> {
        self.run(words)?.succeeded(&words.join(" "))
    }

    /// Runs a command with `--json` that must succeed.
    pub(super) fn json(&self, words: &[&str]) -> Result<Value, String> {
        let text = self.ok(&[words, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}: {text}", words.join(" ")))
    }

    /// Starts a shell script as a job in the background, with flags of `run`, and returns its id.
    pub(super) fn start(&self, flags: &str, script: &str) -> Result<String, String> {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        self.ok(&[&["run", "-d"], &flags[..], &["--", "sh", "-c", script]].concat())
    }

    /// Starts an agent in the background, and returns its job.
    pub(super) fn start_agent(&self, flags: &str, prompt: &str) -> Result<String, String> {
        self.define_agent()?;
        let flags: Vec<&str> = flags.split_whitespace().collect();
        self.ok(&[&["run", "-d", "--agent", "acted"], &flags[..], &["--", prompt]].concat())
    }

    /// Starts the stand-in for Codex in the background, and returns its job.
    pub(super) fn start_codex(&self, flags: &str, prompt: &str) -> Result<String, String> {
        self.define_agent()?;
        let flags: Vec<&str> = flags.split_whitespace().collect();
        self.ok(&[&["run", "-d", "--agent", "acted-codex"], &flags[..], &["--", prompt]].concat())
    }

    fn define_agent(&self) -> Result<(), String> {
        let table = self.state().join("agents.toml");
        if table.exists() {
            return Ok(());
        }
        let mut text = String::new();
        for (name, dialect, file, script) in [
            ("acted", "acp", "agent.py", include_str!("agent.py")),
            ("acted-codex", "codex", "codex.py", include_str!("codex.py")),
        ] {
            let file = self.work(file);
            fs::write(&file, script).map_err(at(&file))?;
            let file = file.display();
            text.push_str(&format!(
                "[{name}]\ndialect = \"{dialect}\"\ncommand = [\"python3\", \"{file}\"]\n"
            ));
        }
        fs::write(&table, text).map_err(at(&table))
    }

    pub(super) fn show(&self, job: &str) -> Result<Value, String> {
        self.json(&["show", job])
    }

    /// Returns the events of a job.
    pub(super) fn events(&self, job: &str) -> Result<Vec<Value>, String> {
        let text = self.ok(&["events", job, "--json"])?;
        text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
    }

    /// Returns how many events of a type a job has.
    pub(super) fn count(&self, job: &str, kind: &str) -> Result<usize, String> {
        Ok(self.events(job)?.iter().filter(|event| event["type"] == kind).count())
    }

    /// Waits until an event of this type is in the log of a job, and returns it.
    pub(super) fn event(&self, job: &str, kind: &str) -> Result<Value, String> {
        until(&format!("{kind} is in the log"), || {
            self.events(job).ok()?.into_iter().find(|event| event["type"] == kind)
        })
    }

    /// Waits until a job runs, and returns its first process.
    pub(super) fn leader(&self, job: &str) -> Result<i32, String> {
        until("the job runs", || {
            let pid = self.show(job).ok()?["attempts"].as_array()?.last()?["pid"].as_i64()?;
            i32::try_from(pid).ok()
        })
    }

    /// Waits until a job wrote a line with a pid to a file, and returns it.
    pub(super) fn pid_in(&self, name: &str) -> Result<i32, String> {
        let file = self.work(name);
        until(&format!("{name} has a pid"), || {
            fs::read_to_string(&file).ok()?.strip_suffix('\n')?.lines().last()?.trim().parse().ok()
        })
    }

    /// Waits until a file of a job is there.
    pub(super) fn file(&self, name: &str) -> Result<(), String> {
        let file = self.work(name);
        until(&format!("{name} is there"), || file.exists().then_some(()))
    }

    /// Waits until a job has ended, and returns it.
    pub(super) fn ended(&self, job: &str) -> Result<Value, String> {
        until("the job has ended", || self.show(job).ok().filter(|shown| shown["phase"] == "ended"))
    }

    /// Waits a while for the end of a job, and returns it as it is then.
    pub(super) fn ended_soon(&self, job: &str) -> Result<Value, String> {
        let mut last = Value::Null;
        within(SOON, || {
            last = self.show(job).ok()?;
            (last["phase"] == "ended").then_some(())
        });
        Ok(last)
    }

    /// Returns the pid of the daemon.
    pub(super) fn daemon(&self) -> Result<i32, String> {
        let status = self.json(&["daemon", "status"])?;
        status["pid"].as_i64().and_then(|pid| pid.try_into().ok()).ok_or(format!("no pid: {status}"))
    }

    /// Kills the daemon and waits until it is gone.
    pub(super) fn kill_daemon(&self) -> Result<(), String> {
        let pid = self.daemon()?;
        signal(pid, libc::SIGKILL);
        until("the daemon is gone", || (!is_alive(pid)).then_some(()))
    }

    /// Returns the two keepers of a leader: the guard, and the shim, which is its child.
    pub(super) fn keepers(&self, leader: i32) -> Result<[i32; 2], String> {
        let parent = |pid: i32| Stat::of(pid).map(|stat| stat.parent).ok_or("the keeper is gone".to_owned());
        let shim = parent(leader)?;
        Ok([parent(shim)?, shim])
    }

    /// Kills a leader and its keepers, so that the exit status is lost.
    pub(super) fn lose(&self, leader: i32) -> Result<(), String> {
        let [guard, shim] = self.keepers(leader)?;
        for pid in [guard, shim, leader] {
            signal(pid, libc::SIGKILL);
        }
        until("the job and its keepers are gone", || {
            [guard, shim, leader].iter().all(|pid| !is_alive(*pid)).then_some(())
        })
    }

    /// Starts a command of the product that keeps running.
    pub(super) fn follow(&self, words: &[&str]) -> Result<Follower, String> {
        let file = self.work(&format!("follower-{}", words.concat().replace(['/', ' '], "-")));
        let out = File::create(&file).map_err(at(&file))?;
        let err = out.try_clone().map_err(at(&file))?;
        let mut command = self.product.command(words);
        let child = command.stdout(out).stderr(err).spawn().map_err(|error| error.to_string())?;
        Ok(Follower { child, file })
    }

    /// Returns a command of another program with a pipe or terminal of the caller's choice.
    pub(super) fn command(&self, program: &str) -> Command {
        self.product.other_command(program)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.product.kill_all();
        if self.has_own_disk {
            let _ = Command::new("umount").arg("--lazy").arg(self.state()).status();
        }
    }
}

impl Follower {
    /// Returns what it printed so far.
    pub(super) fn printed(&self) -> String {
        fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// Waits a while for its end, and returns its exit code if it came.
    pub(super) fn ends(&mut self) -> Option<i32> {
        within(SOON, || self.child.try_wait().ok()?).map(|status| status.code().unwrap_or(-1))
    }
}

impl Follower {
    pub(super) fn signal(&self, number: i32) {
        signal(self.child.id() as i32, number);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    /// Returns its output if it succeeded.
    fn succeeded(self, what: &str) -> Result<String, String> {
        match self.code {
            0 => Ok(self.out.trim_end().to_owned()),
            code => Err(format!("`{what}` exits with {code}: {}{}", self.out, self.err)),
        }
    }

    /// Returns everything it printed on one line.
    pub(super) fn printed(&self) -> String {
        format!("{} {}", self.out.trim(), self.err.trim()).replace('\n', " / ").trim().to_owned()
    }
}

fn said(output: std::io::Result<Output>) -> Result<Ran, String> {
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(Ran { code, out: text(&output.stdout), err: text(&output.stderr) })
}

/// Waits for something that the re-enactment needs.
pub(super) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> Result<T, String> {
    clock::until(PATIENCE, PAUSE, look).ok_or_else(|| format!("{what}: not within {PATIENCE:?}"))
}

/// Waits a while for something that a row is judged by.
pub(super) fn within<T>(time: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
    clock::until(time, PAUSE, look)
}

/// Waits a while until a process is gone, and reports whether it is.
pub(super) fn is_gone_soon(pid: i32) -> bool {
    within(SOON, || (!is_alive(pid)).then_some(())).is_some()
}

/// Reports whether any thread of a process is alive.
pub(super) fn is_alive(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.is_alive())
}

/// Signals a process of the trial.
pub(super) fn signal(pid: i32, number: i32) {
    // SAFETY: a signal to a process of this installation.
    unsafe { libc::kill(pid, number) };
}

pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
