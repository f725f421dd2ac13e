//! Trees that do not move: stopped, dead but not buried, blocked, or holding on to a pipe.

use crate::Scene;
use crate::process::{self, child};

/// Children that nobody waits for.
const ZOMBIES: u32 = 20;

/// Children that write more than anybody reads.
const WRITERS: u32 = 4;

/// How long a leader lives that leaves a child with its output.
const LEADER_US: u32 = 2_000;

/// A child and a grandchild in another session, both SIGSTOPped. They say that they live until they cannot.
pub(crate) fn stopped(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        child(|| {
            canary.settled();
            process::raise(libc::SIGSTOP);
            canary.sing_on();
        });
        canary.sing();
        process::raise(libc::SIGSTOP);
        canary.sing_on();
    });
    canary.sing_on();
}

/// Children that are dead and not waited for.
pub(crate) fn zombies(scene: &Scene) {
    let canary = scene.canary;
    for _ in 0..ZOMBIES {
        child(|| canary.sing());
    }
    canary.settled();
    canary.sing_on();
}

/// Children that write to an output which is not read fast enough, and block there.
pub(crate) fn blocked_writers(scene: &Scene) {
    let canary = scene.canary;
    for _ in 0..WRITERS {
        child(|| {
            canary.sing_by_timer();
            canary.settled();
            let bytes = [b'x'; 65_536];
            loop {
                // SAFETY: the bytes outlive the call.
                if unsafe { libc::write(1, bytes.as_ptr().cast(), bytes.len()) } < 0 {
                    process::rest_us(1_000);
                }
            }
        });
    }
    canary.sing_on();
}

/// The leader exits; a child in another session keeps the output open.
pub(crate) fn pipe_holder(scene: &Scene) {
    let canary = scene.canary;
    child(|| {
        process::new_session();
        canary.settled();
        canary.sing_on();
    });
    process::rest_us(LEADER_US);
    process::exit(0);
}
