//! The worker's own slots: how many jobs it may hold at once, of all groups, those with an idle agent aside. Groups have theirs in the journal.

use std::sync::Mutex;

use crate::agenda::Agenda;
use crate::lock::lock;

/// The slots of a worker.
#[derive(Debug)]
pub(super) struct Slots {
    /// How many there are; `None` is no bound.
    bound: Option<u32>,
    /// Those that claims under way may fill.
    asked_for: Mutex<u32>,
}

/// Slots for one claim, until the jobs that it took have their tasks.
pub(super) struct Reserved<'a> {
    slots: &'a Slots,
    agenda: &'a Agenda,
    count: u32,
}

impl Slots {
    pub(super) fn new(bound: Option<u32>) -> Slots {
        Slots { bound, asked_for: Mutex::default() }
    }

    /// Reserves at most so many slots, of those that neither a job nor another claim has.
    pub(super) fn reserve<'a>(&'a self, agenda: &'a Agenda, at_most: u32) -> Reserved<'a> {
        let mut asked_for = lock(&self.asked_for);
        let held = u32::try_from(agenda.tasks.with_slot()).unwrap_or(u32::MAX);
        let taken = held.saturating_add(*asked_for);
        let count = self.bound.map_or(at_most, |bound| bound.saturating_sub(taken).min(at_most));
        *asked_for += count;
        Reserved { slots: self, agenda, count }
    }

    /// Has the worker look for jobs again, because a slot may be free.
    pub(super) fn freed(&self, agenda: &Agenda) {
        if self.bound.is_some() {
            agenda.wake();
        }
    }
}

impl Reserved<'_> {
    /// Returns how many these are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Keeps a group in mind, if a claim that took so many jobs of it has filled all slots: it may have more.
    pub(super) fn note(&self, group: &str, taken: usize) {
        if self.slots.bound.is_some() && taken >= self.count as usize {
            self.agenda.claim(group);
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            *lock(&self.slots.asked_for) -= self.count;
            self.slots.freed(self.agenda);
        }
    }
}
