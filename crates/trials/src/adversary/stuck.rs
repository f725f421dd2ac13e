//! Trees that do not move: stopped, zombies, blocked, without a main thread, or holding a pipe.

use crate::arguments::Arguments;
use crate::process::{self, child};

/// Zombies.
const ZOMBIES: u32 = 20;

/// Children that write more than is read.
const WRITERS: u32 = 4;

/// How long a leader lives that leaves a child with its output.
const LEADER_US: u32 = 2_000;

/// A child and a grandchild in another session, both SIGSTOPped. They write heartbeats until then.
pub(crate) fn stopped(arguments: &Arguments) {
    let canary = arguments.canary;
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

/// Children that have exited and are not waited for.
pub(crate) fn zombies(arguments: &Arguments) {
    let canary = arguments.canary;
    for _ in 0..ZOMBIES {
        child(|| canary.sing());
    }
    canary.settled();
    canary.sing_on();
}

/// Children that block on an output that is not read fast enough.
pub(crate) fn blocked_writers(arguments: &Arguments) {
    let canary = arguments.canary;
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

/// A leader and a child in another session whose main threads have exited: `/proc` shows both as zombies, and both run.
pub(crate) fn main_thread_gone(arguments: &Arguments) {
    let canary = arguments.canary;
    std::thread::spawn(move || {
        process::until_main_thread_is_gone();
        child(|| {
            process::new_session();
            std::thread::spawn(move || {
                process::until_main_thread_is_gone();
                canary.settled();
                canary.sing_on();
            });
            process::exit_thread();
        });
        canary.sing_on();
    });
    process::exit_thread();
}

/// The leader exits; a child in another session keeps the output open.
pub(crate) fn pipe_holder(arguments: &Arguments) {
    let canary = arguments.canary;
    child(|| {
        process::new_session();
        canary.settled();
        canary.sing_on();
    });
    process::rest_us(LEADER_US);
    process::exit(0);
}
