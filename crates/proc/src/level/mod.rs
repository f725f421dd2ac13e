//! Containment levels, detected by trying them: no level is assumed from a kernel version.
//!
//! Each level has a self-test that does to its own processes what a keeper does to a tree, and checks the result. A nursery runs the
//! tests once when it starts; all of this requires a single-threaded process.

pub(crate) mod cgroup;
pub(crate) mod landlock;
pub(crate) mod limit_fence;
pub(crate) mod namespace;
pub(crate) mod namespace_watch;
mod seccomp;
mod self_test;
#[cfg(test)]
mod tests;

use lastword_core::receipt::Level;

use self_test::{daemonise, in_child, kill_and_reap, sleep_until_killed};

/// A containment level, or why this machine does not have it.
pub type Finding = (Level, Result<(), String>);

/// Tests each level, weakest first, given the control group to create leaves in.
pub(crate) fn available(base: &Result<cgroup::Base, String>) -> Vec<Finding> {
    let cgroup = base.as_ref().map_err(String::clone).and_then(cgroup::Base::self_test);
    vec![
        (Level::Subreaper, subreaper_test(rustix::process::set_child_subreaper)),
        (Level::Landlock, landlock::self_test(landlock::restrict)),
        (Level::Cgroup, cgroup),
        (Level::Namespace, namespace::self_test(namespace::FLAGS)),
    ]
}

/// Becoming a subreaper; a parameter so that a test can leave it out.
type SetSubreaper = fn(Option<rustix::process::Pid>) -> rustix::io::Result<()>;

/// Checks that a process that forked twice and left its session is reparented to us.
fn subreaper_test(set: SetSubreaper) -> Result<(), String> {
    in_child(|| {
        let own = rustix::process::getpid();
        set(Some(own)).map_err(|error| format!("prctl(PR_SET_CHILD_SUBREAPER): {error}"))?;
        let daemon = daemonise(|_| sleep_until_killed())?;
        kill_and_reap(daemon)
    })
}
