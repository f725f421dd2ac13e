//! A user with a private state folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::executable::lastword;

/// How long anything may take on a busy machine before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home; everything started in it is killed when it is dropped.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    executable: PathBuf,
    /// Whether a file system is mounted at the state folder.
    mounted: bool,
}

/// The result of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let home = Home { folder, executable: lastword().into(), mounted: false };
        home.make_private();
        home
    }

    /// Mounts a file system of the given size at the state folder. Needs root.
    pub(crate) fn on_small_disk(bytes: u64) -> Option<Home> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut home = Home::new();
        let size = format!("size={bytes},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "lastword-test"]).arg(home.state());
        assert!(mount.status().unwrap().success(), "a file system is mounted");
        home.mounted = true;
        Some(home)
    }

    pub(crate) fn make_private(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(self.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns a path outside of the state folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Switches to another copy of the executable, as an upgrade does.
    pub(crate) fn upgrade(&mut self) -> PathBuf {
        let copy = self.path("upgraded");
        std::fs::copy(&self.executable, &copy).unwrap();
        self.executable.clone_from(&copy);
        copy
    }

    /// Returns a command with this user's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments);
        self.set_environment(&mut command);
        command
    }

    /// Returns a shell script with this user's environment, in its own mount and PID namespaces.
    pub(crate) fn shell_apart(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
        self.set_environment(&mut command);
        command
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.folder.path())
            .env("LASTWORD", &self.executable)
            .env("LASTWORD_HOME", self.state())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
    }

    /// Runs a command.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "`{}` printed: {}{}", arguments.join(" "), output.out, output.err);
        output.out.trim_end().to_owned()
    }

    /// Runs a command with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Starts a shell script as a job and returns its id.
    pub(crate) fn start(&self, script: &str) -> String {
        self.start_with(&[], script)
    }

    pub(crate) fn start_with(&self, flags: &[&str], script: &str) -> String {
        let arguments: Vec<&str> =
            ["run", "-d"].iter().chain(flags).copied().chain(["--", "sh", "-c", script]).collect();
        self.ok(&arguments)
    }

    pub(crate) fn show(&self, job: &str) -> Value {
        self.json(&["show", job])
    }

    /// Returns the pid of the daemon.
    pub(crate) fn daemon(&self) -> i32 {
        pid_of(&self.json(&["daemon", "status"])["pid"])
    }

    /// Kills the daemon with KILL, and waits until it is gone.
    pub(crate) fn kill_daemon(&self) -> i32 {
        let pid = self.daemon();
        kill(pid);
        until("the daemon is gone", || !is_alive(pid));
        pid
    }

    /// Returns the leader of a job's running attempt.
    pub(crate) fn leader(&self, job: &str) -> i32 {
        let mut leader = None;
        until("the job runs", || {
            let shown = self.show(job);
            let attempt = shown["attempts"].as_array().and_then(|attempts| attempts.last().cloned());
            leader =
                attempt.and_then(|attempt| attempt["pid"].as_i64()).filter(|_| shown["phase"] == "running");
            leader.is_some()
        });
        leader.unwrap() as i32
    }

    /// Returns all live processes that were started for this state folder, by their environment, and the keepers above
    /// those.
    pub(crate) fn alive(&self) -> BTreeMap<i32, String> {
        let state = self.state();
        let state = state.to_str().unwrap();
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let environ = String::from_utf8_lossy(&read("environ")).into_owned();
            let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            if environ.contains(state) && pid != std::process::id() as i32 && is_alive(pid) {
                found.insert(pid, command);
            }
        }
        for leader in found.keys().copied().collect::<Vec<i32>>() {
            for keeper in [parent(leader), parent(parent(leader))] {
                let name = std::fs::read_to_string(format!("/proc/{keeper}/comm")).unwrap_or_default();
                if matches!(name.trim(), "lw-guard" | "lw-shim") {
                    found.insert(keeper, name);
                }
            }
        }
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["daemon", "stop", "--cancel-jobs"]).output();
        for pid in self.alive().into_keys() {
            kill(pid);
        }
        if self.mounted {
            let _ = Command::new("umount").arg("--lazy").arg(self.state()).status();
        }
    }
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> CommandOutput {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // As a shell reports it: 128 plus the signal.
        let code = output.status.code().unwrap_or(-1);
        CommandOutput { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Deletes the folder of a living keeper. A request of another test may make the keeper write in it meanwhile.
pub(crate) fn delete(folder: &Path) {
    until("the folder is deleted", || std::fs::remove_dir_all(folder).is_ok());
}

/// Polls a condition that must become true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reports whether a process is running, not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// Returns the parent of a process: the shim of a leader, the guard of a shim.
pub(crate) fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
    parent.unwrap_or(0)
}

/// Kills a process.
pub(crate) fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal, if the process exists.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

pub(crate) fn pid_of(value: &Value) -> i32 {
    value.as_i64().unwrap() as i32
}

/// Waits until a script has written `count` pids to a file, one per line.
pub(crate) fn pids_in(file: &Path, count: usize) -> Vec<i32> {
    let mut pids = Vec::new();
    until("the script wrote its pids", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        pids = whole.lines().filter_map(|line| line.trim().parse().ok()).collect();
        pids.len() >= count
    });
    pids
}
