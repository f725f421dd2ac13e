//! Trees that cross a kernel boundary: another namespace, another user, another control group, limits of other processes. If the kernel or
//! the keeper prevents that, they stay on this side.

use crate::arguments::{Arguments, OTHER_USER};
use crate::detached;
use crate::process::{self, child};

/// A user without any rights.
const NOBODY: u32 = 65_533;

/// A user and PID namespace with an init and a child in another session, as a sandbox creates it.
pub(crate) fn namespaces(arguments: &Arguments) {
    let canary = arguments.canary;
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

/// A leader that enters a PID namespace made elsewhere, and a daemon in it: that is the child of another init.
pub(crate) fn other_namespace(arguments: &Arguments) {
    for kind in ["user", "pid"] {
        let folder = arguments.outside.as_deref().unwrap_or_default();
        if let Ok(namespace) = std::fs::File::open(format!("{folder}/{kind}")) {
            process::enter(&namespace);
        }
    }
    detached::daemon(arguments);
}

/// A child of another user: root drops to another user, or another user becomes root through a setuid program.
pub(crate) fn setuid(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        process::new_session();
        match arguments.outside.as_deref() {
            Some(program) => process::replace(program, &[OTHER_USER, &arguments.path]),
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

/// Makes the user of a setuid program its only one, so that its starter may not signal it. Reports whether it runs as another user.
pub(crate) fn keeps_what_setuid_gave() -> bool {
    // SAFETY: these take numbers or nothing.
    unsafe {
        let given = libc::geteuid();
        given != libc::getuid() && libc::setresuid(given, given, given) == 0
    }
}

/// A daemon, and a leader that takes file sizes, descriptors, processes and time away from the keepers above it.
pub(crate) fn limits(arguments: &Arguments) {
    let field = |pid: i32, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let mut pid = process::parent();
    // Not the nursery: the next trial needs it.
    while matches!(field(pid, "Name:").as_deref(), Some("lw-shim" | "lw-guard" | "lw-init")) {
        process::starve(pid);
        pid = field(pid, "PPid:").and_then(|parent| parent.parse().ok()).unwrap_or_default();
    }
    detached::daemon(arguments);
}

/// A child that moves itself to another control group, if it may.
pub(crate) fn cgroup_escape(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        process::new_session();
        let group = arguments.outside.as_deref().unwrap_or_default();
        // "0" means the writer.
        if std::fs::write(format!("{group}/cgroup.procs"), "0").is_ok() {
            canary.settled();
        }
        child(|| canary.sing_on());
        canary.sing_on();
    });
    canary.sing_on();
}
