//! `scope`: a control group for a user without rights, given by the user's own service manager.
//!
//! Starts a real `systemd --user` as such a user, in a group of its own, and a nursery through it. What is tried: that the
//! nursery finds the level by its own test, that a tree is held with it, and that nothing of it is left.

use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lastword_core::receipt::{Level, Proof};
use lastword_proc::{Keeper, Launch, Nursery, Stop, wait};

use crate::args::Args;
use crate::place::{Programs, temporary};
use crate::verdict::{bug, verdict};

/// The verb by which this program becomes the user's side.
pub(crate) const VERB: &str = "scope-part";

/// A user that owns nothing else.
const USER: u32 = 54_321;

/// How long a service manager may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service manager refuses to run where this folder is not; it is how a machine says that systemd booted it.
const BOOTED: &str = "/run/systemd/system";

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Tries a scope. With `--bug no-scope` the nursery is started without one, and that must be noticed.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--bug"], &[])?;
    let bug = bug(&args, &["no-scope"])?;
    if !Path::new(SYSTEMD).is_file() {
        println!("SKIPPED: this machine has no service manager ({SYSTEMD})");
        return Ok(true);
    }
    let place = temporary("scope")?;
    let programs = Programs::beside()?.copy_to(&place.path().join("bin"))?;
    let manager = Manager::start(place.path())?;
    let mut part = manager.command(&programs.trials);
    part.arg(VERB).arg(&manager.runtime_dir).arg(place.path().join("jobs"));
    part.args(bug).stderr(Stdio::piped());
    let said = part.output().map_err(|error| format!("the user's side: {error}"))?;
    print!("{}", String::from_utf8_lossy(&said.stdout));
    let found = match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
    };
    Ok(verdict(bug, found))
}

/// A service manager of the user, in a group of its own.
struct Manager {
    group: PathBuf,
    runtime_dir: PathBuf,
    process: Child,
    made_booted: bool,
}

impl Manager {
    fn start(place: &Path) -> Result<Manager, String> {
        let say = |what: &Path| {
            let what = what.display().to_string();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let group =
            crate::torture::observer::unified()?.join(format!("lastword-scope-{}", std::process::id()));
        std::fs::create_dir(&group).map_err(say(&group))?;
        for path in [group.clone(), group.join("cgroup.procs")] {
            chown(&path, Some(USER), Some(USER)).map_err(say(&path))?;
        }
        let mut folders = std::fs::DirBuilder::new();
        let (runtime_dir, jobs, home) = (place.join("run"), place.join("jobs"), place.join("home"));
        for path in [&runtime_dir, &jobs, &home] {
            folders.mode(0o700).create(path).map_err(say(path))?;
            chown(path, Some(USER), Some(USER)).map_err(say(path))?;
        }
        let made_booted = !Path::new(BOOTED).exists();
        std::fs::create_dir_all(BOOTED).map_err(say(BOOTED.as_ref()))?;
        let mut command = as_user(&group, SYSTEMD.as_ref());
        command.arg("--user").env("XDG_RUNTIME_DIR", &runtime_dir).env("HOME", &home);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.map_err(say(SYSTEMD.as_ref()))?;
        let manager = Manager { group, runtime_dir, process, made_booted };
        manager.until_ready().map(|()| manager)
    }

    /// Waits until it answers: its socket is there long before.
    fn until_ready(&self) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let mut ask = self.command("systemctl".as_ref());
            let asked = ask
                .args(["--user", "show", "--property=Version"])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if asked.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
        }
        Err(format!("the service manager did not answer within {PATIENCE:?}"))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = as_user(&self.group, program);
        command.env("XDG_RUNTIME_DIR", &self.runtime_dir);
        command
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Everything the manager started is in its group; what it made there goes from below.
        let _ = std::fs::write(self.group.join("cgroup.kill"), "1");
        let _ = self.process.wait();
        let begin = Instant::now();
        while remove(&self.group).is_err() && begin.elapsed() < PATIENCE {}
        if self.made_booted {
            let _ = std::fs::remove_dir(BOOTED);
        }
    }
}

fn remove(group: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(group)?.flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path())?;
    }
    std::fs::remove_dir(group)
}

/// Returns a command that joins the group as root and goes on as the user: only the group's owner may move itself further.
fn as_user(group: &Path, program: &Path) -> Command {
    let script = "echo $$ > \"$1/cgroup.procs\" && shift && exec setpriv --reuid \"$1\" --regid \"$1\" --clear-groups \"${@:2}\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(group).arg(USER.to_string()).arg(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null());
    command
}

/// The user's side: a nursery in a scope, a tree that forks twice, its end.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [runtime_dir, jobs, bug @ ..] = words else { return Err("where?".to_owned()) };
    let programs = Programs::beside()?;
    let say = |error: lastword_proc::Error| error.to_string();
    let nursery = match bug {
        [] => Nursery::start_in_scope(&programs.lastword, runtime_dir.as_ref()).map_err(say)?,
        _ => Nursery::start(&programs.lastword).map_err(say)?,
    };
    let group = std::fs::read_to_string(format!("/proc/{}/cgroup", nursery.pid())).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("none").to_owned();
    for (level, test) in nursery.findings() {
        println!("{level:?}: {}", test.as_ref().map_or_else(String::as_str, |()| "ok"));
    }
    if !group.ends_with(".scope") {
        return Err(format!("the nursery is in {group}, which is no scope"));
    }
    let script = "setsid sh -c 'sleep 100 & sleep 100' & wait";
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let launch = Launch { env, ..Launch::new(Path::new(jobs).join("1"), ["sh", "-c", script]) };
    let launched = nursery.launch(&launch).map_err(say)?;
    let mut keeper = Keeper::connect(&launch.dir, 0).map_err(say)?;
    let begin = Instant::now();
    while keeper.status().map_err(say)?.alive < 4 {
        if begin.elapsed() > PATIENCE {
            return Err("the tree did not grow".to_owned());
        }
    }
    keeper.stop(Stop { cause: "cancel", force: true, ..Stop::default() }).map_err(say)?;
    let record = wait(&launch.dir, PATIENCE).map_err(say)?.ok_or("the tree has no ending")?;
    println!(
        "in {group}: {} processes found, {:?}, {:?}",
        record.receipt.found, launched.level, record.receipt.proof
    );
    let survivors: Vec<i32> = record
        .receipt
        .processes
        .iter()
        .map(|process| process.pid)
        .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
        .collect();
    match (launched.level, record.receipt.proof, survivors.as_slice()) {
        (Level::Cgroup, Proof::CgroupEmptyAndNoChildren, []) => Ok(true),
        other => Err(format!("not as promised: {other:?}")),
    }
}
