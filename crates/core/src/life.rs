//! Lives of owners: how long one may act, and when others may say that it is over.
//!
//! A life is one registration of an owner. It renews its lease by adding one to its beat, and nothing else about time is stored: clocks of
//! two hosts, or of a host and a database, are never compared. The owner counts its lease from before it sent the renewal. Another process
//! counts from after it saw a beat, by its own boot clock; only when that beat has not changed for the lease and a margin may it end the
//! life, and the journal compares the beat once more. What the owner counts is over before that, whichever clocks jump.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{BootTime, HostId, Incarnation, OwnerId};

/// The part of a lease that keepers need to end their trees: an owner counts its lease as over that much earlier.
pub const STOP_MS: u64 = 1_000;

/// How much longer than its lease a beat must stand still: for clocks that run at different speeds, and for keepers that are scheduled late.
pub const MARGIN_MS: u64 = 2_000;

/// Where trees can be seen and signalled: a host, in one of its boots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The host.
    pub host: HostId,
    /// The id of its boot.
    pub boot: Arc<str>,
}

impl Place {
    /// Returns the place with these ids.
    pub fn new(host: &str, boot: &str) -> Place {
        Place { host: HostId(host.into()), boot: boot.into() }
    }
}

/// A life that is not over, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The owner.
    pub owner: OwnerId,
    /// Names the life.
    pub incarnation: Incarnation,
    /// Where it runs.
    pub place: Place,
    /// How often its lease was renewed.
    pub beat: u64,
    /// How long its lease lasts from each beat.
    pub lease_ms: u64,
}

/// Returns when the lease of a life ends for its owner and its keepers, if the renewal was sent at `sent`.
pub fn deadline(sent: BootTime, lease_ms: u64) -> BootTime {
    sent.plus_ms(lease_ms.saturating_sub(STOP_MS))
}

/// Reports whether a lease has run out for its owner. The owner must neither renew nor claim any more: another process may have ended its life.
pub fn has_run_out(deadline: BootTime, now: BootTime) -> bool {
    deadline <= now
}

/// The beats of lives, as one process has seen them.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<Incarnation, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: u64,
    /// From then on it has not changed.
    since: BootTime,
    lease_ms: u64,
}

impl Seen {
    /// Returns when the life may be ended, if its beat stands until then.
    fn ends(&self, margin_ms: u64) -> BootTime {
        self.since.plus_ms(self.lease_ms).plus_ms(margin_ms)
    }
}

impl Watch {
    /// Takes in the lives that were read, and reports whether one that was seen before is gone. `now` is the time after the answer: a beat
    /// may be as young as that.
    pub fn see(&mut self, lives: &[Life], now: BootTime) -> bool {
        let mut before = std::mem::take(&mut self.seen);
        for life in lives {
            let new = Seen { beat: life.beat, since: now, lease_ms: life.lease_ms };
            let known = before.remove(&life.incarnation).filter(|known| known.beat == life.beat);
            self.seen.insert(life.incarnation, known.unwrap_or(new));
        }
        !before.is_empty()
    }

    /// Forgets a life that was ended, or turned out to have another beat.
    pub fn forget(&mut self, life: Incarnation) {
        self.seen.remove(&life);
    }

    /// Returns the first time at which a life may be over, if no beat comes before that.
    pub fn first_over(&self, margin_ms: u64) -> Option<BootTime> {
        self.seen.values().map(|seen| seen.ends(margin_ms)).min()
    }

    /// Returns the lives that may be ended, each with the beat at which it stands.
    pub fn over(&self, margin_ms: u64, now: BootTime) -> Vec<(Incarnation, u64)> {
        let is_over = |seen: &Seen| seen.ends(margin_ms) <= now;
        self.seen.iter().filter(|(_, seen)| is_over(seen)).map(|(life, seen)| (*life, seen.beat)).collect()
    }
}

/// The pause of a journal that may have lost something, as one process has seen it. `P` names the pause.
#[derive(Clone, Copy, Debug)]
pub struct PauseWatch<P> {
    /// The pause, and since when it was seen.
    seen: Option<(P, BootTime)>,
}

impl<P> Default for PauseWatch<P> {
    fn default() -> PauseWatch<P> {
        PauseWatch { seen: None }
    }
}

impl<P: Copy + PartialEq> PauseWatch<P> {
    /// Takes in the pause that was read. `now` is the time after the answer: the pause may be as young as that.
    pub fn see(&mut self, pause: P, now: BootTime) {
        let known = self.seen.filter(|(known, _)| *known == pause);
        self.seen = Some(known.unwrap_or((pause, now)));
    }

    /// Returns the pause that was seen last.
    pub fn seen(&self) -> Option<P> {
        self.seen.map(|(pause, _)| pause)
    }

    /// Returns when no lease of an earlier instance can last any more.
    pub fn ends(&self, lease_max_ms: u64, margin_ms: u64) -> Option<BootTime> {
        self.seen.map(|(_, since)| since.plus_ms(lease_max_ms).plus_ms(margin_ms))
    }

    /// Reports whether the pause was seen for longer than any lease of an earlier instance can last.
    pub fn is_over(&self, lease_max_ms: u64, margin_ms: u64, now: BootTime) -> bool {
        self.ends(lease_max_ms, margin_ms).is_some_and(|ends| ends <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(number: u64, beat: u64) -> Life {
        let incarnation = Incarnation { instance: 1, number };
        let place = Place::new("here", "1");
        Life { owner: OwnerId("ann".into()), incarnation, place, beat, lease_ms: 10_000 }
    }

    fn over(watch: &Watch, now: u64) -> Vec<(u64, u64)> {
        let over = watch.over(MARGIN_MS, BootTime(now));
        over.into_iter().map(|(life, beat)| (life.number, beat)).collect()
    }

    #[test]
    fn c102_a_beat_must_stand_still_for_the_lease_and_the_margin() {
        let mut watch = Watch::default();
        watch.see(&[life(1, 5), life(2, 1)], BootTime(100));
        watch.see(&[life(1, 6), life(2, 1)], BootTime(9_000));
        watch.see(&[life(1, 6), life(2, 1)], BootTime(12_099));
        assert_eq!(over(&watch, 12_099), []);
        assert_eq!(watch.first_over(MARGIN_MS), Some(BootTime(12_100)));
        assert_eq!(over(&watch, 12_100), [(2, 1)]);
        assert_eq!(over(&watch, 20_999), [(2, 1)]);
        assert_eq!(over(&watch, 21_000), [(1, 6), (2, 1)]);
    }

    #[test]
    fn a_life_that_was_away_is_seen_anew() {
        let mut watch = Watch::default();
        assert!(!watch.see(&[life(1, 5)], BootTime(0)));
        assert!(watch.see(&[], BootTime(5_000)), "it is gone");
        assert_eq!(watch.first_over(MARGIN_MS), None);
        assert!(!watch.see(&[life(1, 5)], BootTime(6_000)));
        watch.forget(life(1, 5).incarnation);
        assert!(!watch.see(&[life(1, 5)], BootTime(6_000)), "it was not waited for");
        assert_eq!(over(&watch, 17_999), []);
        assert_eq!(over(&watch, 18_000), [(1, 5)]);
    }

    #[test]
    fn c38_the_owner_counts_its_lease_as_over_first() {
        // Sent at 1,000, stored at once, and seen at the same moment by a clock that agrees.
        let mut watch = Watch::default();
        watch.see(&[life(1, 1)], BootTime(1_000));
        let first = (0..).step_by(100).find(|now| !over(&watch, *now).is_empty()).unwrap();
        assert_eq!(first - deadline(BootTime(1_000), 10_000).0, MARGIN_MS + STOP_MS);
    }

    #[test]
    fn a_pause_lasts_for_the_longest_lease_and_the_margin() {
        let mut pause = PauseWatch::default();
        let is_over = |pause: &PauseWatch<u8>, now| pause.is_over(10_000, MARGIN_MS, BootTime(now));
        assert!(!is_over(&pause, u64::MAX), "none was seen");
        pause.see(1, BootTime(100));
        pause.see(1, BootTime(5_000));
        assert_eq!((is_over(&pause, 12_099), is_over(&pause, 12_100)), (false, true));
        pause.see(2, BootTime(12_100));
        assert_eq!((is_over(&pause, 24_099), is_over(&pause, 24_100)), (false, true), "another pause");
    }

    #[test]
    fn a_lease_has_run_out_at_its_deadline() {
        assert!(!has_run_out(BootTime(10), BootTime(9)));
        assert!(has_run_out(BootTime(10), BootTime(10)));
    }
}
