//! A user with a state folder of their own, who types commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

/// Longer than anything here takes on a busy machine; what waits for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user. What they started is gone when they are.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    executable: PathBuf,
    /// Whether a file system of its own is mounted at the state folder.
    mounted: bool,
}

/// What a command came to.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let home = Home { folder, executable: env!("CARGO_BIN_EXE_lastword").into(), mounted: false };
        home.make_private();
        home
    }

    /// Puts a file system of so many bytes under the state folder. Needs root.
    pub(crate) fn on_small_disk(bytes: u64) -> Option<Home> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut home = Home::new();
        let size = format!("size={bytes},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "lastword-test"]).arg(home.state());
        assert!(mount.status().unwrap().success(), "a file system of its own is mounted");
        home.mounted = true;
        Some(home)
    }

    fn make_private(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(self.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns a place outside the state folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Uses another copy of the executable from now on, as an upgrade does.
    pub(crate) fn upgrade(&mut self) -> PathBuf {
        let copy = self.path("upgraded");
        std::fs::copy(&self.executable, &copy).unwrap();
        self.executable.clone_from(&copy);
        copy
    }

    /// Returns a command of this user that was not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments);
        self.settle_in(&mut command);
        command
    }

    /// Returns a shell of this user in which `lastword` is the executable, in mount and other namespaces of its own.
    pub(crate) fn shell_apart(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
        self.settle_in(&mut command);
        command
    }

    fn settle_in(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.folder.path())
            .env("LASTWORD", &self.executable)
            .env("LASTWORD_HOME", self.state())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
    }

    /// Types a command and reads what it says.
    pub(crate) fn say(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().unwrap())
    }

    /// Types a command that must succeed, and returns what it printed.
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let said = self.say(arguments);
        assert_eq!(said.code, 0, "`{}` said: {}{}", arguments.join(" "), said.out, said.err);
        said.out.trim_end().to_owned()
    }

    /// Asks with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.good(&arguments)).unwrap()
    }

    /// Starts a shell script as a job and returns its id.
    pub(crate) fn start(&self, script: &str) -> String {
        self.start_with(&[], script)
    }

    pub(crate) fn start_with(&self, flags: &[&str], script: &str) -> String {
        let arguments: Vec<&str> =
            ["run", "-d"].iter().chain(flags).copied().chain(["--", "sh", "-c", script]).collect();
        self.good(&arguments)
    }

    pub(crate) fn show(&self, job: &str) -> Value {
        self.json(&["show", job])
    }

    /// Returns the daemon's number.
    pub(crate) fn daemon(&self) -> i32 {
        pid_of(&self.json(&["daemon", "status"])["pid"])
    }

    /// Kills the daemon with -9 and returns when it is gone.
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

    /// Returns everything that is alive and was started for this state folder, by what it carries in its environment, and
    /// the keepers above that.
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

impl Said {
    pub(crate) fn of(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // A shell that was killed says 128 and the signal; here one is as good as the other.
        let code = output.status.code().unwrap_or(-1);
        Said { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Waits until something is so; fails when it has hung.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reports whether a process is there and not only waiting to be reaped.
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

/// Kills with -9.
pub(crate) fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal, if there is anybody to send it to.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

pub(crate) fn pid_of(value: &Value) -> i32 {
    value.as_i64().unwrap() as i32
}

/// Reads numbers that a script wrote, one to a line, as soon as there are so many.
pub(crate) fn pids_in(file: &Path, count: usize) -> Vec<i32> {
    let mut pids = Vec::new();
    until("the script wrote who it is", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        pids = whole.lines().filter_map(|line| line.trim().parse().ok()).collect();
        pids.len() >= count
    });
    pids
}
