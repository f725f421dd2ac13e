//! A host for tests: its own network, processes, host name, machine id and boot id, and a folder that is at `/mnt` there.
//!
//! All processes of a host are in a pid namespace, so nothing outlives it. Hosts of one history are connected by a bridge; a cut of one direction is
//! a neighbour entry that leads nowhere, which drops packets without a word as a broken switch does.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock;
use crate::place::Programs;

/// The verb by which this program becomes the first process of a host.
pub(crate) const INIT: &str = "fleet-init";

/// Where a host finds its own folder.
pub(super) const FOLDER: &str = "/mnt";

/// The bridge, and the network of a history.
const BRIDGE: &str = "fleet";
const NETWORK: &str = "10.77.0";

/// How long a host may take to come up. The machine runs other histories, too.
const UP_MAX: Duration = Duration::from_secs(20);

/// The address at which no host is.
const NOWHERE: &str = "02:00:00:00:00:fe";

/// A host that is up.
pub(super) struct Host {
    pub(super) name: &'static str,
    /// The last part of its address.
    number: u8,
    folder: PathBuf,
    machine: String,
    trials: PathBuf,
    boots: u32,
    is_up: bool,
    /// Its first process, as seen from here; and the program that waits for it.
    init: i32,
    outside: Child,
}

/// A program that was started on a host, by its number here. The first process of the history reaps it.
pub(super) struct Process {
    pub(super) pid: i32,
}

/// Makes the network of this history. The namespace of the calling process must be its own.
pub(super) fn make_network() -> Result<(), String> {
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["addr", "add", &format!("{NETWORK}.254/24"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])
}

impl Host {
    /// Brings a host up. Its folder is made if it is not there: a clone brings its own.
    pub(super) fn boot(
        programs: &Programs,
        name: &'static str,
        number: u8,
        folder: PathBuf,
        machine: &str,
    ) -> Result<Host, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (init, outside) = up(&programs.trials, name, &folder, machine)?;
        let machine = machine.to_owned();
        let trials = programs.trials.clone();
        let host = Host { name, number, folder, machine, trials, boots: 1, is_up: true, init, outside };
        host.connect()?;
        Ok(host)
    }

    /// Returns its address.
    pub(super) fn address(&self) -> String {
        format!("{NETWORK}.{}", self.number)
    }

    /// Returns its folder, as seen from here.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reports whether it has power.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) fn machine(&self) -> &str {
        &self.machine
    }

    fn plug(&self) -> String {
        format!("h{}b{}", self.number, self.boots)
    }

    fn hardware(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.number)
    }

    fn connect(&self) -> Result<(), String> {
        let (plug, init) = (self.plug(), self.init.to_string());
        ip(&[
            "link",
            "add",
            &plug,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "address",
            &self.hardware(),
            "netns",
            &init,
        ])?;
        ip(&["link", "set", &plug, "master", BRIDGE, "up"])?;
        self.ip(&["addr", "add", &format!("{}/24", self.address()), "dev", "eth0"])?;
        self.ip(&["link", "set", "lo", "up"])?;
        self.ip(&["link", "set", "eth0", "up"])
    }

    /// Power is cut: first the network is gone, then every process, without a word to anyone.
    pub(super) fn power_off(&mut self) {
        self.is_up = false;
        let _ = ip(&["link", "delete", &self.plug()]);
        // SAFETY: a signal to a child of our child, which waits for it and is waited for here.
        unsafe { libc::kill(self.init, libc::SIGKILL) };
        let _ = self.outside.wait();
    }

    /// Powers it off, and brings it up with the same folder and another boot id.
    pub(super) fn reboot(&mut self) -> Result<(), String> {
        self.power_off();
        self.boots += 1;
        self.is_up = true;
        (self.init, self.outside) = up(&self.trials, self.name, &self.folder, &self.machine)?;
        self.connect()
    }

    /// Drops what this host sends to the other from now on.
    pub(super) fn cut(&self, other: &Host) -> Result<(), String> {
        self.ip(&["neigh", "replace", &other.address(), "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent"])
    }

    /// Ends a cut. It is no error if there is none: the host may have been booted since.
    pub(super) fn heal(&self, other: &Host) {
        let _ = self.ip(&["neigh", "delete", &other.address(), "dev", "eth0"]);
    }

    /// Returns a command that runs on this host, with nothing in its environment but a path.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_as(None, program)
    }

    /// The same by another user and group.
    pub(super) fn command_as(&self, user: Option<(u32, u32)>, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--uts", "--ipc", "--net", "--pid"]);
        if let Some((uid, gid)) = user {
            command.args([format!("--setuid={uid}"), format!("--setgid={gid}")]);
        }
        command.args(["--wd=/", "--"]).arg(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", FOLDER);
        command.stdin(Stdio::null());
        command
    }

    /// Starts a program, whose words are added to a file of the given name in the folder `logs` beside the hosts.
    pub(super) fn start(&self, mut command: Command, log: &str) -> Result<Process, String> {
        let logs = self.folder.with_file_name("logs");
        let failed = |error: io::Error| format!("{}: {log}: {error}", self.name);
        fs::create_dir_all(&logs).map_err(failed)?;
        let open = || File::options().append(true).create(true).open(logs.join(log));
        command.stdout(open().map_err(failed)?).stderr(open().map_err(failed)?).process_group(0);
        let mut entry = command.spawn().map_err(failed)?;
        let outer = entry.id().cast_signed();
        let found = clock::until(UP_MAX, clock::MOMENT, || {
            let gone = entry.try_wait().ok().flatten().is_some();
            (gone || !children(outer).is_empty()).then(|| children(outer).first().copied())
        });
        let pid = found.flatten().ok_or_else(|| format!("{}: {log}: it did not start", self.name))?;
        // What entered the host would wait for the program, and stop itself whenever that is frozen: a host could not end then.
        entry.kill().and_then(|()| entry.wait()).map_err(failed)?;
        Ok(Process { pid })
    }

    /// Returns the process that has this number on the host, by its number here.
    pub(super) fn outer(&self, inner: i32) -> Option<i32> {
        let namespace = fs::read_link(format!("/proc/{}/ns/pid", self.init)).ok()?;
        let is_it = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            numbers.split_whitespace().next_back() == Some(&inner.to_string())
                && fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|own| own == namespace)
        };
        processes().find(is_it)
    }

    fn ip(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("nsenter");
        said(command.args(["--target", &self.init.to_string(), "--net", "--", "ip"]).args(words)).map(drop)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.power_off();
    }
}

impl Process {
    /// Signals the program.
    pub(super) fn signal(&self, number: i32) {
        // SAFETY: a signal to a process of this history; in its namespace a number is not used again so soon.
        unsafe { libc::kill(self.pid, number) };
    }

    /// Kills the program, and waits for its end.
    pub(super) fn kill(&self) {
        self.signal(libc::SIGKILL);
        self.ends_within(UP_MAX);
    }

    /// Waits for the end of the program.
    pub(super) fn ends_within(&self, within: Duration) -> bool {
        clock::until(within, Duration::from_millis(2), || self.is_over().then_some(())).is_some()
    }

    /// Reports whether the program has exited.
    pub(super) fn is_over(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }
}

fn up(trials: &Path, name: &str, folder: &Path, machine: &str) -> Result<(i32, Child), String> {
    let sign = folder.with_extension("up");
    let _ = fs::remove_file(&sign);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--uts", "--ipc"]);
    command.arg(trials).args([INIT, name]).arg(folder).arg(machine).arg(&sign);
    command.stdin(Stdio::null());
    let mut outside = command.spawn().map_err(|error| format!("unshare (of util-linux): {error}"))?;
    let is_up = clock::until(UP_MAX, Duration::from_millis(1), || {
        let gone = outside.try_wait().ok().flatten().is_some();
        (gone || sign.exists()).then(|| children(outside.id().cast_signed()).first().copied())
    });
    match is_up.flatten() {
        Some(init) => Ok((init, outside)),
        None => Err(format!("the host {name} does not come up: hosts need root")),
    }
}

/// Runs as the first process of a host: `fleet-init NAME FOLDER MACHINE SIGN`. Reaps every orphan.
pub(crate) fn init(words: &[&str]) -> Result<bool, String> {
    let [name, folder, machine, sign] = words else { return Err("NAME FOLDER MACHINE SIGN".to_owned()) };
    let (machine_file, boot_file) = (Path::new(folder).join("machine-id"), Path::new(folder).join("boot-id"));
    let boot = fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| error.to_string())?;
    fs::write(&machine_file, format!("{machine}\n")).map_err(|error| error.to_string())?;
    fs::write(&boot_file, boot).map_err(|error| error.to_string())?;
    bind(&boot_file, "/proc/sys/kernel/random/boot_id")?;
    if Path::new("/etc/machine-id").exists() {
        bind(&machine_file, "/etc/machine-id")?;
    }
    // Control groups belong to the machine, so two hosts would share them.
    if Path::new("/sys/fs/cgroup").exists() {
        said(Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "none", "/sys/fs/cgroup"]))?;
    }
    said(Command::new("mount").args(["-t", "tmpfs", "none", "/dev/shm"]))?;
    bind(Path::new(folder), FOLDER)?;
    // SAFETY: the name is as long as is said.
    if unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) } != 0 {
        return Err(format!("the host's name: {}", io::Error::last_os_error()));
    }
    fs::write(sign, "").map_err(|error| error.to_string())?;
    loop {
        // SAFETY: no status is asked for.
        if unsafe { libc::wait(std::ptr::null_mut()) } < 0 {
            clock::rest(Duration::from_millis(20));
        }
    }
}

fn bind(from: &Path, to: &str) -> Result<(), String> {
    said(Command::new("mount").arg("--bind").arg(from).arg(to)).map(drop)
}

fn ip(words: &[&str]) -> Result<(), String> {
    said(Command::new("ip").args(words)).map(drop)
}

/// Runs a tool that must succeed, and returns what it said.
pub(super) fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Returns the children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
