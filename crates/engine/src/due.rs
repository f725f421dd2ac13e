//! Moments at which jobs of a queue may be taken that may not be yet: the life sleeps until the first of them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lastword_core::Timestamp;

use crate::lock::lock;

/// Queues by the moment at which there is something to take in them.
#[derive(Debug, Default)]
pub(crate) struct Due(Mutex<BTreeMap<Timestamp, Vec<String>>>);

impl Due {
    /// Notes that there will be something to take in a queue.
    pub(crate) fn add(&self, at: Timestamp, queue: &str) {
        let mut due = lock(&self.0);
        let queues = due.entry(at).or_default();
        if !queues.iter().any(|known| known == queue) {
            queues.push(queue.to_owned());
        }
    }

    /// Returns the next moment.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        lock(&self.0).keys().next().copied()
    }

    /// Returns the queues whose moment has come, and forgets them.
    pub(crate) fn take(&self, now: Timestamp) -> Vec<String> {
        let mut due = lock(&self.0);
        let later = due.split_off(&now.plus_ms(1));
        std::mem::replace(&mut *due, later).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_in_order_and_once() {
        let due = Due::default();
        due.add(Timestamp(20), "b");
        due.add(Timestamp(10), "a");
        due.add(Timestamp(10), "a");
        assert_eq!(due.next(), Some(Timestamp(10)));
        assert!(due.take(Timestamp(9)).is_empty());
        assert_eq!(due.take(Timestamp(20)), ["a", "b"]);
        assert_eq!(due.next(), None);
    }
}
