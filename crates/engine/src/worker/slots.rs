//! The worker's own slots: how many jobs it may hold at once, of all groups. Groups have theirs in the journal.

use std::sync::Mutex;

use lastword_store::Store;

use super::Worker;
use crate::lock::lock;

/// Slots that claims under way may fill.
#[derive(Debug, Default)]
pub(super) struct Slots {
    asked_for: Mutex<u32>,
}

/// Slots for one claim, until the jobs that it took have their tasks.
pub(super) struct Reserved<'a, J: Store> {
    worker: &'a Worker<J>,
    count: u32,
}

impl<J: Store> Worker<J> {
    /// Reserves at most so many slots, of those that neither a job nor another claim has.
    pub(super) fn reserve(&self, at_most: u32) -> Reserved<'_, J> {
        let mut asked_for = lock(&self.slots.asked_for);
        let taken =
            u32::try_from(self.desk.agenda.tasks.len()).unwrap_or(u32::MAX).saturating_add(*asked_for);
        let free = self.options.slots.map_or(at_most, |slots| slots.saturating_sub(taken).min(at_most));
        *asked_for += free;
        Reserved { worker: self, count: free }
    }

    /// Looks for jobs again, because a slot may be free.
    pub(super) fn slot_freed(&self) {
        if self.options.slots.is_some() {
            self.desk.agenda.wake();
        }
    }
}

impl<J: Store> Reserved<'_, J> {
    /// Returns how many these are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Keeps a group in mind, if a claim that took so many jobs of it has filled all slots: it may have more.
    pub(super) fn note(&self, group: &str, taken: usize) {
        if self.worker.options.slots.is_some() && taken >= self.count as usize {
            self.worker.desk.agenda.claim(group);
        }
    }
}

impl<J: Store> Drop for Reserved<'_, J> {
    fn drop(&mut self) {
        if self.count > 0 {
            *lock(&self.worker.slots.asked_for) -= self.count;
            self.worker.slot_freed();
        }
    }
}
