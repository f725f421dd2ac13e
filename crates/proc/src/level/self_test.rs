//! What the self-tests of all levels share: children that run a test, daemons, and reaping them.

use std::io::{self, Read as _, Write as _};

use rustix::process::{Signal, WaitOptions};

use crate::sys;

/// Seconds after which a self-test process is killed. A test takes milliseconds; the rest allows for a very busy machine.
pub(super) const TEST_SECONDS: u32 = 10;

/// The size limit of a finding: a single write to a pipe, which is atomic.
const FINDING_BYTES_MAX: usize = 1024;

/// Runs a test in a child process, which is gone when this returns.
pub(super) fn in_child(test: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut reader, mut writer) = io::pipe().map_err(|error| format!("pipe: {error}"))?;
    let child = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        sys::Fork::Parent(child) => child,
        sys::Fork::Child => {
            drop(reader);
            sys::default_signals();
            set_alarm();
            // A panic must not unwind into the frames copied from the parent.
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test))
                .unwrap_or_else(|_| Err("the test panicked".to_owned()));
            let finding = found.err().unwrap_or_else(|| "ok".to_owned()).into_bytes();
            let cut = finding.len().min(FINDING_BYTES_MAX);
            let _ = writer.write_all(&finding[..cut]);
            sys::exit(0)
        }
    };
    drop(writer);
    // A single read: a process that the test failed to kill may still hold the pipe open.
    let mut finding = [0; FINDING_BYTES_MAX];
    let read = reader.read(&mut finding).map_err(|error| format!("reading the finding: {error}"))?;
    // If the caller ignores SIGCHLD there is no status, but this still waits until the child is gone.
    let _ = wait_for(child);
    match String::from_utf8_lossy(&finding[..read]).as_ref() {
        "ok" => Ok(()),
        "" => Err("the test died without a finding".to_owned()),
        found => Err(found.to_owned()),
    }
}

/// Has the kernel kill this process when the test takes too long.
pub(super) fn set_alarm() {
    // SAFETY: a timer without a handler; its signal ends the process.
    unsafe {
        libc::alarm(TEST_SECONDS);
    }
}

/// Sleeps until killed.
pub(super) fn sleep_until_killed() -> ! {
    loop {
        // SAFETY: `pause` has no preconditions.
        unsafe {
            libc::pause();
        }
    }
}

/// Starts a process that leaves its parent and session, as daemons do, and returns its pid once it runs.
///
/// `body` gets the pipe through which the pid was sent.
pub(super) fn daemonise(body: impl FnOnce(io::PipeWriter)) -> Result<i32, String> {
    let fail = |what: &str, error: io::Error| format!("{what}: {error}");
    let (mut reader, mut writer) = io::pipe().map_err(|error| fail("pipe", error))?;
    match sys::fork().map_err(|error| fail("fork", error))? {
        sys::Fork::Parent(between) => {
            drop(writer);
            let mut pid = [0; 4];
            reader.read_exact(&mut pid).map_err(|error| fail("a daemon did not start", error))?;
            wait_for(between)?;
            Ok(i32::from_ne_bytes(pid))
        }
        sys::Fork::Child => {
            drop(reader);
            let _ = rustix::process::setsid();
            if let Ok(sys::Fork::Child) = sys::fork() {
                set_alarm();
                let pid = rustix::process::getpid().as_raw_nonzero().get();
                let _ = writer.write_all(&pid.to_ne_bytes());
                body(writer);
            }
            sys::exit(0)
        }
    }
}

/// Kills a process of a test and reaps it as our child.
pub(super) fn kill_and_reap(pid: i32) -> Result<(), String> {
    let known = rustix::process::Pid::from_raw(pid).ok_or("a process without a pid")?;
    rustix::process::kill_process(known, Signal::KILL).map_err(|error| format!("kill: {error}"))?;
    match wait_for(pid)? {
        libc::SIGKILL => Ok(()),
        status => Err(format!("a killed process ended with status {status:#x}")),
    }
}

/// Kills and reaps the children that a test could not.
pub(super) fn kill_children() {
    let own = std::process::id();
    while sys::reap(false) != sys::Reaped::NoChildren {
        let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        for child in children.filter_map(rustix::process::Pid::from_raw) {
            // Safe by pid: our child keeps it until we reap it.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        sys::reap(true);
    }
}

/// Waits for a child and returns its raw status.
pub(super) fn wait_for(pid: i32) -> Result<i32, String> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or("a process without a pid")?;
    match rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty())) {
        Ok(Some((_, status))) => Ok(status.as_raw()),
        Ok(None) => Err("waitpid returned no child".to_owned()),
        Err(error) => Err(format!("process {pid:?} is not a child that can be waited for: {error}")),
    }
}
