//! What this machine can hold a tree with, found out by trying: no level is claimed because of a version number.
//!
//! Each level has a self-test that does with processes of its own what a keeper will do with a tree, and looks whether
//! it worked. All of it is for single-threaded processes: a nursery runs the tests once, when it starts.

pub(crate) mod cgroup;
pub(crate) mod landlock;
pub(crate) mod namespace;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Write as _};

use lastword_core::receipt::Level;
use rustix::process::{Signal, WaitOptions};

use crate::nursery::Finding;
use crate::sys;

/// Seconds after which a process of a self-test ends by itself. A test takes milliseconds; the rest is room for a machine
/// that is very busy.
const TEST_SECONDS: u32 = 10;

/// Bytes of a self-test's finding: one write to a pipe that no other write can tear.
const FINDING_BYTES_MAX: usize = 1024;

/// Returns each level, weakest first, with the reason why this machine does not have it. `base` is where groups can be made.
pub(crate) fn available(base: &Result<cgroup::Base, String>) -> Vec<Finding> {
    let cgroup = base.as_ref().map_err(String::clone).and_then(cgroup::Base::self_test);
    vec![
        (Level::Subreaper, subreaper_test(rustix::process::set_child_subreaper)),
        (Level::Landlock, landlock::self_test(landlock::restrict)),
        (Level::Cgroup, cgroup),
        (Level::Namespace, namespace::self_test(namespace::FLAGS)),
    ]
}

/// Becoming a subreaper, as a parameter so that a test can leave it out.
type SetSubreaper = fn(Option<rustix::process::Pid>) -> rustix::io::Result<()>;

/// Shows that a process that forked twice and left the session comes back to us when its parent goes.
fn subreaper_test(set: SetSubreaper) -> Result<(), String> {
    in_child(|| {
        let own = rustix::process::getpid();
        set(Some(own)).map_err(|error| format!("prctl(PR_SET_CHILD_SUBREAPER): {error}"))?;
        let daemon = daemonise(|_| wait_for_the_end())?;
        kill_and_reap(daemon)
    })
}

/// Runs a test in a process of its own, which is gone when this returns.
pub(crate) fn in_child(test: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut reader, mut writer) = io::pipe().map_err(|error| format!("pipe: {error}"))?;
    let child = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        sys::Fork::Parent(child) => child,
        sys::Fork::Child => {
            drop(reader);
            sys::default_signals();
            end_in_time();
            // A panic must not go on in the caller's frames, which are the parent's.
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test))
                .unwrap_or_else(|_| Err("the test panicked".to_owned()));
            let finding = found.err().unwrap_or_else(|| "ok".to_owned()).into_bytes();
            let cut = finding.len().min(FINDING_BYTES_MAX);
            let _ = writer.write_all(&finding[..cut]);
            sys::exit(0)
        }
    };
    drop(writer);
    // One read: a process that the test failed to end may still hold the other end.
    let mut finding = [0; FINDING_BYTES_MAX];
    let read = reader.read(&mut finding).map_err(|error| format!("reading the finding: {error}"))?;
    // A caller that ignores SIGCHLD has nothing to wait for; then this waits until the child is gone all the same.
    let _ = wait_for(child);
    match String::from_utf8_lossy(&finding[..read]).as_ref() {
        "ok" => Ok(()),
        "" => Err("the test died without a finding".to_owned()),
        found => Err(found.to_owned()),
    }
}

/// Has the kernel end this process when a test took too long, whatever became of the others.
fn end_in_time() {
    // SAFETY: a timer without a handler; its signal ends the process.
    unsafe {
        libc::alarm(TEST_SECONDS);
    }
}

/// Waits to be killed.
fn wait_for_the_end() -> ! {
    loop {
        // SAFETY: `pause` has no preconditions.
        unsafe {
            libc::pause();
        }
    }
}

/// Starts a process that left its parent and its session, as daemons do, and returns its number once it runs.
///
/// It gets the end of a pipe to speak into; what it says first must be its number.
fn daemonise(body: impl FnOnce(io::PipeWriter)) -> Result<i32, String> {
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
                end_in_time();
                let pid = rustix::process::getpid().as_raw_nonzero().get();
                let _ = writer.write_all(&pid.to_ne_bytes());
                body(writer);
            }
            sys::exit(0)
        }
    }
}

/// Kills a process of a test and sees it die as a child of ours.
fn kill_and_reap(pid: i32) -> Result<(), String> {
    let known = rustix::process::Pid::from_raw(pid).ok_or("a process without a number")?;
    rustix::process::kill_process(known, Signal::KILL).map_err(|error| format!("kill: {error}"))?;
    match wait_for(pid)? {
        libc::SIGKILL => Ok(()),
        status => Err(format!("a killed process ended with status {status:#x}")),
    }
}

/// Kills what a test could not end, and sees it die.
fn kill_children() {
    let own = std::process::id();
    while sys::reap(false) != sys::Reaped::NoChildren {
        let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        for child in children.filter_map(rustix::process::Pid::from_raw) {
            // A child of ours keeps its number until we wait for it.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        sys::reap(true);
    }
}

/// Waits for a child and returns its raw status.
fn wait_for(pid: i32) -> Result<i32, String> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or("a process without a number")?;
    match rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty())) {
        Ok(Some((_, status))) => Ok(status.as_raw()),
        Ok(None) => Err("a wait came back with nobody".to_owned()),
        Err(error) => Err(format!("process {pid:?} is not a child that can be waited for: {error}")),
    }
}
