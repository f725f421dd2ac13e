//! The boot clock, which keepers use in their records, and short polling waits.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since boot, suspends included.
pub(crate) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Calls `look` every `pause` until it returns something or the time is up.
pub(crate) fn until<T>(within: Duration, pause: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        rest(pause);
    }
}

/// The pause of a poll for something that takes almost no time.
pub(crate) const MOMENT: Duration = Duration::from_micros(200);

/// Sleeps. For polling, and for trials that are about a point in time.
#[expect(clippy::disallowed_methods, reason = "between two looks at a condition, or until a chosen moment")]
pub(crate) fn rest(pause: Duration) {
    std::thread::sleep(pause);
}
