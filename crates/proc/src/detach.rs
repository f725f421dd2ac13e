//! Starts a daemon that outlives its starter, and what such a daemon needs to know about its start.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::proc_files;
use crate::sys;
use crate::tree::ancestors;

/// A program to start in the background.
#[derive(Debug)]
pub struct Detached<'a> {
    /// What to run.
    pub executable: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables to add or change.
    pub variables: Vec<(&'static str, OsString)>,
    /// Its stdout, for its report to the starter.
    pub output: OwnedFd,
    /// Its stderr.
    pub errors: File,
}

impl Detached<'_> {
    /// Starts it as an orphan in its own session, in `/`, with umask 077, so that it outlives the terminal, the shell and this process.
    /// Removes loader variables such as `LD_PRELOAD`: otherwise the client that starts a daemon would inject code into all later requests.
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start(self) -> io::Result<()> {
        let mut command = Command::new(self.executable);
        command.args(&self.arguments).envs(self.variables).current_dir("/");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_loader_variable(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::from(self.output)).stderr(Stdio::from(self.errors));
        // SAFETY: between fork and exec only system calls are made; nothing allocates or locks.
        unsafe { command.pre_exec(daemonize) };
        // Only the intermediate process is waited for, which exits at once.
        let status = command.spawn()?.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("the intermediate process ended with {status}"))),
        }
    }
}

/// Reports whether a variable makes the dynamic loader load other code.
pub fn is_loader_variable(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"LD_") || name.starts_with(b"DYLD_")
}

/// Makes this process undumpable: other processes of the user cannot read its memory or environment, and it leaves no core file.
pub fn make_undumpable() {
    sys::set_undumpable();
}

/// Runs in the child: forks again, and continues in the grandchild as leader of its own session.
fn daemonize() -> io::Result<()> {
    if let sys::Fork::Parent(_) = sys::fork()? {
        sys::exit(0);
    }
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::setsid()?;
    Ok(())
}

/// Returns the sockets that the service manager opened for this process; empty if it did not.
///
/// `pid` and `count` are the values of `LISTEN_PID` and `LISTEN_FDS`.
///
/// Call this once, early: a second call would return descriptors that already have an owner.
pub fn listen_fds(pid: Option<&str>, count: Option<&str>) -> Vec<OwnedFd> {
    /// The first descriptor, by convention.
    const FIRST: i32 = 3;
    let for_us = pid.and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let count: i32 = count.and_then(|count| count.parse().ok()).filter(|_| for_us).unwrap_or(0);
    // SAFETY: the service manager opened these for us and says so, and no other code uses them.
    let take = |number: i32| unsafe { OwnedFd::from_raw_fd(number) };
    let taken: Vec<OwnedFd> = (FIRST..FIRST.saturating_add(count.clamp(0, 16))).map(take).collect();
    for fd in &taken {
        // A keeper must not inherit the daemon's socket.
        let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
    taken
}

/// Reports whether another process has the same name as this one.
pub fn is_same_program(pid: i32) -> bool {
    let name = |pid: &str| std::fs::read(format!("/proc/{pid}/comm")).ok();
    name("self").is_some_and(|own| name(&pid.to_string()) == Some(own))
}

/// Reports whether a process descends from a keeper, whatever its environment says.
pub fn is_below_keeper(pid: i32) -> bool {
    // Ancestors that cannot be read may be keepers.
    ancestors(pid).is_none_or(|line| line.iter().skip(1).any(|(pid, _)| is_keeper(*pid)))
}

/// Reports whether a process has the name of a keeper's process.
fn is_keeper(pid: i32) -> bool {
    matches!(proc_files::name_of(pid).as_str(), "lw-guard" | "lw-shim" | "lw-init")
}
