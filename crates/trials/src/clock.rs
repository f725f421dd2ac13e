//! The boot clock, which keepers stamp their records with, and short waits for something that can be looked at.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since boot, sleep included.
pub(crate) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Looks every `pause` until `look` finds something or the time is up.
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

/// The pause between two looks at something that comes in no time.
pub(crate) const MOMENT: Duration = Duration::from_micros(200);

/// Gives the processor away for a while. For polling, and for a moment that is itself what is tried.
#[expect(clippy::disallowed_methods, reason = "between two looks at a condition, or until a chosen moment")]
pub(crate) fn rest(pause: Duration) {
    std::thread::sleep(pause);
}
