//! Programs that are not jobs: a daemon that must outlive whoever started it, and what such a daemon is handed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::identity::{Identity, Stat};
use crate::sys;

/// How a program is started that nobody waits for.
#[derive(Debug)]
pub struct Detached<'a> {
    /// What to run.
    pub executable: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it sees otherwise than this process.
    pub variables: Vec<(&'static str, OsString)>,
    /// Where its output goes: what it has to say to whoever started it.
    pub output: OwnedFd,
    /// Where its errors go.
    pub errors: File,
}

impl Detached<'_> {
    /// Starts it in a session of its own, in the root folder, with files for nobody else, as nobody's child: it outlives the
    /// terminal, the shell and the process it was started from. What tells a loader to take other code is left behind: one client
    /// in such an environment would give its code to all that come after.
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start(self) -> io::Result<()> {
        let mut command = Command::new(self.executable);
        command.args(&self.arguments).envs(self.variables).current_dir("/");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_loader(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::from(self.output)).stderr(Stdio::from(self.errors));
        // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(leave) };
        // What is waited for is the process in between, which ends at once.
        let status = command.spawn()?.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("the process in between ended with {status}"))),
        }
    }
}

/// Reports whether a variable tells a loader to take other code than the program's own.
pub fn is_of_loader(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"LD_") || name.starts_with(b"DYLD_")
}

/// Closes this process to others of its user: nobody may read its memory or its environment, and it leaves no core file.
pub fn close_to_others() {
    sys::set_undumpable();
}

/// Runs in the child: its own child goes on, in a session of its own.
fn leave() -> io::Result<()> {
    if let sys::Fork::Parent(_) = sys::fork()? {
        sys::exit(0);
    }
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::setsid()?;
    Ok(())
}

/// Returns the sockets that a service manager opened for this process; none if it was not started by one.
///
/// `pid` and `count` are what it said, in the variables it uses for that.
///
/// Call it once, early: whoever calls it again gets descriptors that have an owner already.
pub fn handed_over(pid: Option<&str>, count: Option<&str>) -> Vec<OwnedFd> {
    /// Where they begin, by convention.
    const FIRST: i32 = 3;
    let for_us = pid.and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let count: i32 = count.and_then(|count| count.parse().ok()).filter(|_| for_us).unwrap_or(0);
    // SAFETY: the service manager opened these for us and says so; nobody else in this process uses them.
    let take = |number: i32| unsafe { OwnedFd::from_raw_fd(number) };
    let taken: Vec<OwnedFd> = (FIRST..FIRST.saturating_add(count.clamp(0, 16))).map(take).collect();
    for fd in &taken {
        // Ours alone: a keeper must not hold the daemon's socket.
        let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
    taken
}

/// Reports whether another process goes by the name of this one.
pub fn is_same_program(pid: i32) -> bool {
    let name = |whose: &str| std::fs::read(format!("/proc/{whose}/comm")).ok();
    name("self").is_some_and(|own| name(&pid.to_string()) == Some(own))
}

/// Reports whether this process is below a keeper, whatever its environment says.
pub fn is_kept() -> bool {
    /// Longer lines of ancestors are not looked through.
    const GENERATIONS_MAX: usize = 1_000;
    let Ok(me) = Identity::own() else { return false };
    let parents = std::iter::successors(Some(me.pid), |pid| {
        Stat::of(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0)
    });
    parents.skip(1).take(GENERATIONS_MAX).any(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        matches!(name.trim_end(), "lw-guard" | "lw-shim" | "lw-init")
    })
}
