//! The three clocks: awake time for limits, boot time for leases, wall time for people.

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns milliseconds since boot without time asleep: a closed lid does not count against a limit.
pub fn awake_ms() -> u64 {
    ns(ClockId::Monotonic) / 1_000_000
}

/// Returns milliseconds since boot including time asleep: a lease expires while the lid is closed.
pub fn boot_ms() -> u64 {
    boot_ns() / 1_000_000
}

/// Returns nanoseconds since boot, including time asleep.
pub fn boot_ns() -> u64 {
    ns(ClockId::Boottime)
}

/// Returns milliseconds since 1970.
pub fn wall_ms() -> u64 {
    ns(ClockId::Realtime) / 1_000_000
}

/// Sleeps, in a process that has nothing to poll.
pub(crate) fn pause(ms: u64) {
    let _ = poll(&mut [], Some(&timespec(ms)));
}

/// Converts milliseconds to a kernel time span.
pub(crate) fn timespec(ms: u64) -> Timespec {
    Timespec { tv_sec: (ms / 1000).cast_signed(), tv_nsec: (ms % 1000 * 1_000_000).cast_signed() }
}
