//! The three clocks: awake for limits, boot for leases, wall for people.

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Milliseconds since boot in which this machine was awake: a closed lid spends no limit.
pub fn awake_ms() -> u64 {
    ns(ClockId::Monotonic) / 1_000_000
}

/// Milliseconds since boot, asleep or not: a lease runs out while a lid is closed.
pub fn boot_ms() -> u64 {
    boot_ns() / 1_000_000
}

/// The same in nanoseconds.
pub fn boot_ns() -> u64 {
    ns(ClockId::Boottime)
}

/// Milliseconds since 1970, as far as this machine knows.
pub fn wall_ms() -> u64 {
    ns(ClockId::Realtime) / 1_000_000
}

/// Waits, in a process that has nothing else to hear of.
pub(crate) fn pause(ms: u64) {
    let _ = poll(&mut [], Some(&span(ms)));
}

/// Returns a span of time as the kernel takes it.
pub(crate) fn span(ms: u64) -> Timespec {
    Timespec { tv_sec: (ms / 1000).cast_signed(), tv_nsec: (ms % 1000 * 1_000_000).cast_signed() }
}
