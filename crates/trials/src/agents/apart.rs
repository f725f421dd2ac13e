//! A trial in namespaces of its own: nothing outside can be ended by mistake, agents reach no network but the loopback, and
//! nothing is left when the trial is over.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::place::Programs;

/// The verb by which this program becomes the first process of the namespaces.
pub(crate) const INIT: &str = "apart-init";

/// Returns the command that runs a verb of this program in there.
pub(crate) fn command(programs: &Programs, verb: &str, words: &[&OsStr]) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--mount-proc",
        "--net",
        "--cgroup",
        "--ipc",
    ]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg(&programs.trials).arg(INIT).arg(verb).args(words).stdin(Stdio::null());
    command
}

/// Runs a verb of this program in there. Returns what it found wrong, which it has written to its errors.
pub(crate) fn run(programs: &Programs, verb: &str, words: &[&OsStr]) -> Result<Result<(), String>, String> {
    let inside = command(programs, verb, words).stderr(Stdio::piped()).spawn();
    let said = inside.and_then(std::process::Child::wait_with_output);
    let said = said.map_err(|error| format!("unshare (of util-linux) is needed: {error}"))?;
    Ok(match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
    })
}

/// The first process of the namespaces: every orphan becomes its child, and is reaped.
pub(crate) fn init(words: &[&str]) -> Result<bool, String> {
    raise_loopback()?;
    // SAFETY: no handler, only the default action. If nohup started the trial, every process here would inherit the ignored
    // SIGHUP.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let conductor = Command::new(own).args(words).spawn().map_err(|error| error.to_string())?;
    let conductor = conductor.id().cast_signed();
    loop {
        let mut status = 0;
        // SAFETY: the status is ours to write to.
        let gone = unsafe { libc::wait(&raw mut status) };
        if gone == conductor {
            return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        }
        if gone < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return Err("the conductor is gone".to_owned());
        }
    }
}

/// Has this network namespace, which has nothing else, speak to itself.
fn raise_loopback() -> Result<(), String> {
    let failed = || format!("the loopback cannot be raised: {}", std::io::Error::last_os_error());
    // SAFETY: plain system calls on a socket and a request of our own.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(failed());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let raised = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        if raised < 0 { Err(failed()) } else { Ok(()) }
    }
}
