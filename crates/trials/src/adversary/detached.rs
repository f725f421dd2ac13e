//! Trees that detach: other sessions, other groups, other parents, no environment, signals ignored.

use crate::arguments::{Arguments, REPLACED};
use crate::canary::Canary;
use crate::process::{self, child};

/// How long a leader lives that exits before its tree: long enough to create it.
const LEADER_US: u32 = 3_000;

/// Children that each have a child in another group.
const GROUPS: u32 = 4;

/// A child and a grandchild, as any build has.
pub(crate) fn family(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        child(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// A child in another session, with a child.
pub(crate) fn own_session(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        process::new_session();
        child(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// Forked twice, with the middle process gone: the classic daemon.
pub(crate) fn daemon(arguments: &Arguments) {
    let canary = arguments.canary;
    detach(|| live(canary));
    canary.sing_on();
}

/// The same, and the leader exits.
pub(crate) fn daemon_alone(arguments: &Arguments) {
    let canary = arguments.canary;
    detach(|| live(canary));
    process::rest_us(LEADER_US);
    process::exit(0);
}

/// A daemon that clears its environment, and every marker in it.
pub(crate) fn daemon_bare(arguments: &Arguments) {
    detach(|| {
        let own = std::env::current_exe().ok();
        if let Some(own) = own.as_deref().and_then(|path| path.to_str()) {
            process::replace(own, &[REPLACED, &arguments.path]);
        }
    });
    arguments.canary.sing_on();
}

/// A leader that deletes the folder of its own attempt, and a daemon without an environment.
pub(crate) fn folder_gone(arguments: &Arguments) {
    if let Some(folder) = std::env::var_os(lastword_proc::MARKER) {
        let _ = std::fs::remove_dir_all(folder);
    }
    daemon_bare(arguments);
}

/// A daemon whose environment other processes may not read, like a key agent's.
pub(crate) fn undumpable(arguments: &Arguments) {
    let canary = arguments.canary;
    detach(|| {
        process::attribute(libc::PR_SET_DUMPABLE, 0);
        live(canary);
    });
    canary.sing_on();
}

/// A family that ignores every signal it can.
pub(crate) fn deaf(arguments: &Arguments) {
    process::turn_deaf();
    family(arguments);
}

/// Children and grandchildren, each in its own group.
pub(crate) fn own_groups(arguments: &Arguments) {
    let canary = arguments.canary;
    for _ in 0..GROUPS {
        child(|| {
            process::new_group();
            child(|| {
                process::new_group();
                live(canary);
            });
            canary.sing_on();
        });
    }
    canary.sing_on();
}

/// A descendant that is a subreaper itself, so that orphans do not reach the keeper while it lives.
pub(crate) fn subreaper(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        process::attribute(libc::PR_SET_CHILD_SUBREAPER, 1);
        process::new_session();
        detach(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// Runs `work` in another session, with its parent gone.
fn detach(work: impl FnOnce()) {
    child(|| {
        process::new_session();
        child(work);
    });
}

/// Reports that the tree is complete, as its last process.
fn live(canary: Canary) {
    canary.settled();
    canary.sing_on();
}
