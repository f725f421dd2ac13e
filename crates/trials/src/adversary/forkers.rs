//! Trees that are never the same twice: whatever list one makes of them is old when it is read.

use crate::process::{self, child, fork};
use crate::{Canary, Scene};

/// Runners that run at once.
const RUNNERS: u32 = 20;

/// Generations of a burst: each process forks twice, so that there are two to this power, less one.
const BURST_GENERATIONS: u32 = 5;

/// How many processes a storm may have: of this user, the kernel refuses more. Root is not bound by it; there the
/// judge caps the control group.
const STORM_MAX: u64 = 180;

/// Forks and exits, for ever: at most two processes live, and never long.
pub(crate) fn runner(scene: &Scene) {
    let canary = scene.canary;
    process::turn_deaf();
    child(|| run(canary, false));
    canary.sing_on();
}

/// The same with a new session each time.
pub(crate) fn runner_sessions(scene: &Scene) {
    let canary = scene.canary;
    process::turn_deaf();
    child(|| run(canary, true));
    canary.sing_on();
}

/// Many of these at once.
pub(crate) fn runners(scene: &Scene) {
    let canary = scene.canary;
    process::turn_deaf();
    for _ in 0..RUNNERS {
        child(|| run(canary, true));
    }
    canary.sing_on();
}

/// Forks and leaves the rest to the child, which does the same.
fn run(canary: Canary, sessions: bool) -> ! {
    let end = process::forking_ends();
    let mut generation = 0;
    while process::boot_ns() < end {
        match fork() {
            0 => {
                process::set_alarm();
                if sessions {
                    process::new_session();
                }
                canary.sing();
                generation += 1;
                if generation == 2 {
                    canary.settled();
                }
            }
            pid if pid > 0 => process::exit(0),
            // No room just now.
            _ => process::rest_us(100),
        }
    }
    process::exit(0);
}

/// Every process forks as fast as it can, up to the cap, in sessions and groups of their own; some exit so that
/// others can be born.
pub(crate) fn storm(scene: &Scene) {
    let canary = scene.canary;
    process::turn_deaf();
    let limit = libc::rlimit { rlim_cur: STORM_MAX, rlim_max: STORM_MAX };
    // SAFETY: the structure outlives the call.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit);
    }
    let end = process::forking_ends();
    let leader = process::own_pid();
    let mut told = false;
    let mut refused: u32 = 0;
    while process::boot_ns() < end {
        match fork() {
            0 => {
                process::set_alarm();
                refused = 0;
                match process::own_pid() % 3 {
                    0 => process::new_session(),
                    _ => process::new_group(),
                }
                canary.sing();
            }
            pid if pid > 0 => canary.sing(),
            _ => {
                if !told {
                    canary.settled();
                    told = true;
                }
                canary.sing();
                while process::reap(-1) {}
                refused += 1;
                // One in seven gives way at a time; the leader stays, for a leader that goes is another kind.
                if refused % 7 == process::own_pid() as u32 % 7 && process::own_pid() != leader {
                    process::exit(0);
                }
                process::rest_us(300);
            }
        }
    }
    process::exit(0);
}

/// A storm that ends by itself: a full binary tree of deaf processes, each in a session or group of its own. Whoever stops it
/// in the middle meets it while it grows.
pub(crate) fn burst(scene: &Scene) {
    process::turn_deaf();
    grow(scene.canary, BURST_GENERATIONS);
}

fn grow(canary: Canary, generations: u32) -> ! {
    if generations == 1 {
        canary.settled();
        canary.sing_on();
    }
    for side in 0..2 {
        child(|| {
            match side {
                0 => process::new_session(),
                _ => process::new_group(),
            }
            grow(canary, generations - 1);
        });
    }
    canary.sing_on();
}

/// Forks from a second thread: the children stand below that thread, not below the first.
pub(crate) fn thread_forks(scene: &Scene) {
    let canary = scene.canary;
    std::thread::spawn(move || {
        child(|| {
            process::new_session();
            canary.sing_on();
        });
        child(|| {
            process::new_group();
            canary.settled();
            canary.sing_on();
        });
        canary.sing_on();
    });
    canary.sing_on();
}

/// Two processes in two sessions, each of which makes the other anew when it is gone.
pub(crate) fn respawners(scene: &Scene) {
    process::turn_deaf();
    let end = process::forking_ends();
    watch(scene.canary, Partner::None, end);
}

enum Partner {
    None,
    Parent(i32),
    Child(i32),
}

fn watch(canary: Canary, mut partner: Partner, end: u64) -> ! {
    while process::boot_ns() < end {
        let is_gone = match partner {
            Partner::None => true,
            Partner::Parent(pid) => process::parent() != pid,
            Partner::Child(pid) => process::reap(pid),
        };
        if is_gone {
            let own = process::own_pid();
            match fork() {
                0 => {
                    process::set_alarm();
                    process::new_session();
                    canary.settled();
                    partner = Partner::Parent(own);
                }
                pid if pid > 0 => partner = Partner::Child(pid),
                _ => partner = Partner::None,
            }
        }
        canary.sing();
        process::rest_us(200);
    }
    process::exit(0);
}
