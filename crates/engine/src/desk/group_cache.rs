//! The groups as the journal has them, cached: they say whether a claim is worth a try. What the journal stores binds the claim itself.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lastword_store::Group;

use crate::lock::lock;

/// The stored groups, written through. A stale one delays a claim until the next sweep, but never lets it take too many.
#[derive(Debug)]
pub(crate) struct GroupCache {
    known: Mutex<BTreeMap<String, Group>>,
    /// Slots of the default group until it is set.
    pub(super) default_slots: Option<u32>,
    /// Held while groups are read or changed, so that an older read never overwrites a newer one.
    turn: tokio::sync::Mutex<()>,
}

impl GroupCache {
    pub(crate) fn new(default_slots: Option<u32>) -> GroupCache {
        GroupCache { known: Mutex::default(), default_slots, turn: tokio::sync::Mutex::default() }
    }

    /// Returns a group.
    pub(crate) fn get(&self, name: &str) -> Option<Group> {
        lock(&self.known).get(name).cloned()
    }

    /// Returns the names of all groups.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.known).keys().cloned().collect()
    }

    /// Waits for the turn to read or change the groups.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(super) fn set(&self, groups: Vec<Group>) {
        *lock(&self.known) = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
    }
}
