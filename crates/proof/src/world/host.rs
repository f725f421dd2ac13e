//! A simulated machine: its clocks, its boots, and whether it is switched on.

use lastword_core::{Awake, Now, Timestamp};

/// Where the wall clocks stand at first: far enough from zero to jump back several times.
pub(crate) const EPOCH_MS: u64 = 1_000_000;

/// Names of boots. Schedules are short: no host boots as often as there are names.
const BOOTS: [&str; 8] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"];

/// A machine.
#[derive(Default)]
pub(crate) struct Host {
    /// How far its wall clock is off.
    skew_ms: i64,
    booted_at: u64,
    /// The number of its current boot.
    pub(crate) boot: u32,
    /// How long it has slept in this boot.
    slept_ms: u64,
    /// It sleeps until then.
    pub(crate) asleep_until: u64,
    /// It never comes back.
    pub(crate) gone: bool,
}

impl Host {
    /// Returns the time awake since its boot.
    pub(crate) fn awake(&self, now: u64) -> Awake {
        Awake(now.saturating_sub(self.booted_at + self.slept_ms))
    }

    /// Returns the time of its wall clock.
    pub(crate) fn wall(&self, now: u64) -> Timestamp {
        Timestamp((EPOCH_MS + now).saturating_add_signed(self.skew_ms))
    }

    /// Returns both clocks.
    pub(crate) fn clocks(&self, now: u64) -> Now {
        Now { wall: self.wall(now), awake: self.awake(now) }
    }

    /// Returns the id of its current boot.
    pub(crate) fn boot_id(&self) -> &'static str {
        boot_id(self.boot)
    }

    /// Returns for how long it is still switched off.
    pub(crate) fn off_ms(&self, now: u64) -> u64 {
        self.booted_at.saturating_sub(now)
    }

    /// Goes off now, and is back with another boot after `off_ms`.
    pub(crate) fn reboot(&mut self, now: u64, off_ms: u64) {
        self.boot += 1;
        self.booted_at = now + off_ms;
        self.slept_ms = 0;
        self.asleep_until = 0;
    }

    /// Falls asleep, or sleeps on for longer.
    pub(crate) fn sleep(&mut self, now: u64, nap_ms: u64) {
        self.asleep_until = self.asleep_until.max(now) + nap_ms;
        self.slept_ms += nap_ms;
    }

    /// Its wall clock jumps.
    pub(crate) fn jump(&mut self, ms: i64) {
        self.skew_ms += ms;
    }
}

/// Returns the id of a boot.
pub(crate) fn boot_id(boot: u32) -> &'static str {
    BOOTS[boot as usize % BOOTS.len()]
}
