//! Trees that leave: other sessions, other groups, other parents, no environment, no ear for signals.

use crate::process::{self, child};
use crate::{Canary, REPLACED, Scene};

/// How long a leader lives that goes before its tree: long enough to have made it.
const LEADER_US: u32 = 3_000;

/// Own groups, each with a child in another.
const GROUPS: u32 = 4;

/// A child and a grandchild, as any build has.
pub(crate) fn family(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        child(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// A child in a session of its own, with a child.
pub(crate) fn own_session(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        child(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// Forked twice, with the middle gone: the classic daemon.
pub(crate) fn daemon(scene: &Scene) {
    let canary = scene.canary;
    detach(|| live(canary));
    canary.sing_on();
}

/// The same, and the leader exits by itself.
pub(crate) fn daemon_alone(scene: &Scene) {
    let canary = scene.canary;
    detach(|| live(canary));
    process::rest_us(LEADER_US);
    process::exit(0);
}

/// A daemon that throws its environment away, and every marker in it.
pub(crate) fn daemon_bare(scene: &Scene) {
    detach(|| {
        let own = std::env::current_exe().ok();
        if let Some(own) = own.as_deref().and_then(|path| path.to_str()) {
            process::replace(own, &[REPLACED.0, &scene.path]);
        }
    });
    scene.canary.sing_on();
}

/// A daemon whose environment nobody else may read, as that of a key agent.
pub(crate) fn undumpable(scene: &Scene) {
    let canary = scene.canary;
    detach(|| {
        process::attribute(libc::PR_SET_DUMPABLE, 0);
        live(canary);
    });
    canary.sing_on();
}

/// A family that ignores every polite signal.
pub(crate) fn deaf(scene: &Scene) {
    process::turn_deaf();
    family(scene);
}

/// Children and grandchildren, each in a group of its own.
pub(crate) fn own_groups(scene: &Scene) {
    let canary = scene.canary;
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

/// A descendant that collects orphans itself, so that they never come up to the keeper while it lives.
pub(crate) fn subreaper(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::attribute(libc::PR_SET_CHILD_SUBREAPER, 1);
        process::new_session();
        detach(|| live(canary));
        canary.sing_on();
    });
    canary.sing_on();
}

/// Runs `work` in a process of another session whose parent is gone.
fn detach(work: impl FnOnce()) {
    child(|| {
        process::new_session();
        child(work);
    });
}

/// The last process of a tree: with it the tree is complete.
fn live(canary: Canary) {
    canary.settled();
    canary.sing_on();
}
