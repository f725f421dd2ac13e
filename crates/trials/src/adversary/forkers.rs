//! Trees that change all the time: any list of their processes is outdated when it is read.

use crate::arguments::Arguments;
use crate::canary::Canary;
use crate::process::{self, child, fork};

/// Runners at once.
const RUNNERS: u32 = 20;

/// Generations of a burst. Each process forks twice, so there are two to this power, less one.
const BURST_GENERATIONS: u32 = 5;

/// Processes of a storm: the kernel refuses this user more. Root is not bound by that, so the judge caps the control group instead.
const STORM_MAX: u64 = 180;

/// Forks and exits for ever: at most two processes live at a time, and not for long.
pub(crate) fn runner(arguments: &Arguments) {
    let canary = arguments.canary;
    process::turn_deaf();
    child(|| run(canary, false));
    canary.sing_on();
}

/// The same, with a new session each time.
pub(crate) fn runner_sessions(arguments: &Arguments) {
    let canary = arguments.canary;
    process::turn_deaf();
    child(|| run(canary, true));
    canary.sing_on();
}

/// Several of these at once.
pub(crate) fn runners(arguments: &Arguments) {
    let canary = arguments.canary;
    process::turn_deaf();
    for _ in 0..RUNNERS {
        child(|| run(canary, true));
    }
    canary.sing_on();
}

/// Forks and exits; the child does the same.
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
            // No process slot free just now.
            _ => process::rest_us(100),
        }
    }
    process::exit(0);
}

/// Every process forks as fast as it can, up to the cap, in sessions and groups of their own. Some exit to make room for others.
pub(crate) fn storm(arguments: &Arguments) {
    let canary = arguments.canary;
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
                // One in seven exits at a time. The leader stays: a leader that exits is another kind.
                if refused % 7 == process::own_pid() as u32 % 7 && process::own_pid() != leader {
                    process::exit(0);
                }
                process::rest_us(300);
            }
        }
    }
    process::exit(0);
}

/// A storm that ends by itself: a full binary tree of processes that ignore signals, each in its own session or group. A stop in the middle
/// meets it while it grows.
pub(crate) fn burst(arguments: &Arguments) {
    process::turn_deaf();
    grow(arguments.canary, BURST_GENERATIONS);
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

/// Forks from a second thread: the children belong to that thread, not to the first.
pub(crate) fn thread_forks(arguments: &Arguments) {
    let canary = arguments.canary;
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

/// Two processes in two sessions, each of which recreates the other when it is gone.
pub(crate) fn respawners(arguments: &Arguments) {
    process::turn_deaf();
    let end = process::forking_ends();
    watch(arguments.canary, Partner::None, end);
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
