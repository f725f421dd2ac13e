//! When this server last saw each owner renew its lease, by its own clock. An owner whose life is over is remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastword_api::WorkerState;
use lastword_core::life::Life;
use lastword_core::{BootTime, HostId, Incarnation, OwnerId};

/// What was seen of each owner.
#[derive(Debug, Default)]
pub(super) struct Beats {
    seen: BTreeMap<OwnerId, Seen>,
    /// Whether there was a look before: a life that was not there then is as young as it looks.
    has_looked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    life: Incarnation,
    beat: u64,
    /// When the beat was first seen.
    at: BootTime,
    /// Whether that is when the owner sent it, and not when this server first looked.
    is_timed: bool,
    lease_ms: u64,
    host: HostId,
    /// Whether the life was not over when it was last looked for.
    is_alive: bool,
}

/// An owner as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) state: WorkerState,
    /// Milliseconds since its last beat; `None` if it was there when this server first looked.
    pub(super) beat_ago_ms: Option<u64>,
    pub(super) host: Option<Arc<str>>,
}

impl Beats {
    /// Takes in the lives that were read.
    pub(super) fn see(&mut self, lives: &[Life], now: BootTime) {
        self.seen.values_mut().for_each(|seen| seen.is_alive = false);
        // The last of an owner's lives is the present one.
        for life in lives {
            let (at, is_timed) = match self.seen.get(&life.owner) {
                Some(known) if (known.life, known.beat) == (life.incarnation, life.beat) => {
                    (known.at, known.is_timed)
                }
                _ => (now, self.has_looked),
            };
            let seen = Seen {
                life: life.incarnation,
                beat: life.beat,
                at,
                is_timed,
                lease_ms: life.lease_ms,
                host: life.place.host.clone(),
                is_alive: true,
            };
            self.seen.insert(life.owner.clone(), seen);
        }
        self.has_looked = true;
    }

    /// Returns what is known of an owner. One that was never seen is away.
    pub(super) fn of(&self, owner: &OwnerId, now: BootTime) -> Sight {
        let Some(seen) = self.seen.get(owner) else {
            return Sight { state: WorkerState::Away, beat_ago_ms: None, host: None };
        };
        let ago = now.0.saturating_sub(seen.at.0);
        let state = match seen.is_alive {
            false => WorkerState::Away,
            true if ago >= seen.lease_ms => WorkerState::Silent,
            true => WorkerState::Connected,
        };
        let beat_ago_ms = seen.is_timed.then_some(ago);
        Sight { state, beat_ago_ms, host: Some(Arc::clone(&seen.host.0)) }
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::life::Place;

    use super::*;

    fn ann() -> OwnerId {
        OwnerId("ann".into())
    }

    fn life(number: u64, beat: u64) -> Life {
        let incarnation = Incarnation { instance: 1, number };
        Life { owner: ann(), incarnation, place: Place::new("here", "boot"), beat, lease_ms: 15_000 }
    }

    fn sight(beats: &Beats, now: u64) -> (WorkerState, Option<u64>) {
        let sight = beats.of(&ann(), BootTime(now));
        (sight.state, sight.beat_ago_ms)
    }

    #[test]
    fn a_worker_is_connected_while_its_beat_changes_and_silent_after_its_lease() {
        let mut beats = Beats::default();
        assert_eq!(sight(&beats, 0), (WorkerState::Away, None));
        beats.see(&[life(1, 7)], BootTime(1_000));
        assert_eq!(sight(&beats, 2_000), (WorkerState::Connected, None), "its last beat may be old");
        beats.see(&[life(1, 8)], BootTime(3_000));
        beats.see(&[life(1, 8)], BootTime(9_000));
        assert_eq!(sight(&beats, 9_000), (WorkerState::Connected, Some(6_000)));
        assert_eq!(sight(&beats, 18_000), (WorkerState::Silent, Some(15_000)));
        beats.see(&[], BootTime(20_000));
        assert_eq!(sight(&beats, 20_000), (WorkerState::Away, Some(17_000)));
        beats.see(&[life(2, 0)], BootTime(30_000));
        assert_eq!(sight(&beats, 30_500), (WorkerState::Connected, Some(500)));
        assert_eq!(beats.of(&ann(), BootTime(30_500)).host.as_deref(), Some("here"));
    }
}
