//! Trees that cross a border of the kernel: another namespace, another user, another control group.
//!
//! Where the kernel or the keeper does not let them, they live on this side of it, unsettled.

use crate::process::{self, child};
use crate::{OTHER_USER, Scene};

/// A user that has nothing.
const NOBODY: u32 = 65_533;

/// A user and process namespace of its own with an init and a child in another session, as a sandbox makes it.
pub(crate) fn namespaces(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        // SAFETY: takes flags.
        let is_other = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } == 0;
        child(|| {
            child(|| {
                process::new_session();
                if is_other {
                    canary.settled();
                }
                canary.sing_on();
            });
            canary.sing_on();
        });
        canary.sing_on();
    });
    canary.sing_on();
}

/// A child of another user: root becomes somebody else, somebody else becomes root by a setuid program.
pub(crate) fn setuid(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        match scene.outside.as_deref() {
            Some(program) => process::replace(program, &[OTHER_USER.0, &scene.path]),
            None => {
                // SAFETY: takes numbers.
                if unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) } == 0 {
                    canary.settled();
                }
                canary.sing_on();
            }
        }
    });
    canary.sing_on();
}

/// Makes the user that a setuid program runs as its only one, so that whoever started it may not signal it. Reports
/// whether there was one.
pub(crate) fn keeps_what_setuid_gave() -> bool {
    // SAFETY: these take numbers or nothing.
    unsafe {
        let given = libc::geteuid();
        given != libc::getuid() && libc::setresuid(given, given, given) == 0
    }
}

/// A child that moves itself to another control group, as far as it may.
pub(crate) fn cgroup_escape(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        let group = scene.outside.as_deref().unwrap_or_default();
        // "0" is whoever writes it.
        if std::fs::write(format!("{group}/cgroup.procs"), "0").is_ok() {
            canary.settled();
        }
        child(|| canary.sing_on());
        canary.sing_on();
    });
    canary.sing_on();
}
