//! Groups: how many of their jobs may be held at once, and whether any are taken at all.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use lastword_core::spec::DEFAULT_GROUP;
use lastword_core::view::row::PhaseName;
use lastword_store::siblings::{Group, Siblings};
use lastword_store::{self as store, Filter, Read};

use crate::shared::{Shared, lock};
use crate::{Engine, Error};

/// Slots of a group that nobody made: one job after the other.
const SLOTS_UNASKED: u32 = 1;

/// The groups as they are stored: written through, so that a claim need not read them first.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    known: Mutex<BTreeMap<String, Group>>,
    /// Held while they are read or changed: what was read first must not be noted last.
    turn: tokio::sync::Mutex<()>,
}

impl Groups {
    /// Returns a group.
    pub(crate) fn get(&self, name: &str) -> Option<Group> {
        lock(&self.known).get(name).cloned()
    }

    /// Returns every group's name.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.known).keys().cloned().collect()
    }

    /// Waits for the turn to read or change them.
    async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    fn set(&self, groups: Vec<Group>) {
        *lock(&self.known) = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
    }
}

impl<J: Siblings> Shared<J> {
    /// Reads the groups. The default one is always there; as long as nobody has changed it, the options say how large it is.
    pub(crate) async fn read_groups(&self) -> Result<Vec<Group>, store::Error> {
        let _turn = self.groups.turn().await;
        self.read_in_turn().await
    }

    async fn read_in_turn(&self) -> Result<Vec<Group>, store::Error> {
        let mut groups = self.journal.groups().await?;
        if !groups.iter().any(|group| group.name == DEFAULT_GROUP) {
            let (name, slots) = (DEFAULT_GROUP.to_owned(), self.options.default_slots);
            groups.push(Group { name, slots, paused: false });
            groups.sort_by(|one, other| one.name.cmp(&other.name));
        }
        self.groups.set(groups.clone());
        Ok(groups)
    }

    /// Makes a group that a job names and nobody made.
    pub(crate) async fn have_group(&self, name: &str) -> Result<(), store::Error> {
        if self.groups.get(name).is_some() {
            return Ok(());
        }
        let _turn = self.groups.turn().await;
        // The first one may be asked for before this life has read any.
        self.read_in_turn().await?;
        if self.groups.get(name).is_some() {
            return Ok(());
        }
        let group = Group { name: name.to_owned(), slots: Some(SLOTS_UNASKED), paused: false };
        self.journal.add_group(group).await?;
        self.read_in_turn().await.map(drop)
    }

    /// Changes groups, and reads them again. If nobody knows what came of it, the life finds out.
    async fn change_groups<T>(
        &self,
        change: impl Future<Output = Result<T, store::Error>>,
    ) -> Result<T, Error> {
        let _turn = self.groups.turn().await;
        let changed = match change.await {
            Ok(changed) => self.read_in_turn().await.map(|_| changed),
            Err(error) => Err(error),
        };
        changed.map_err(|error| {
            self.unsure.store(true, Ordering::Relaxed);
            self.wake.notify_one();
            error.into()
        })
    }
}

impl<J: Siblings> Engine<J> {
    /// Returns every group, by name.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        Ok(self.shared.read_groups().await?)
    }

    /// Reports whether a group is paused: nothing new of it is started.
    pub fn is_paused(&self, name: &str) -> bool {
        self.shared.groups.get(name).is_some_and(|group| group.paused)
    }

    /// Makes a group or changes it, and takes what may be taken now.
    pub async fn set_group(&self, group: Group) -> Result<(), Error> {
        let name = group.name.clone();
        self.shared.change_groups(self.shared.journal.set_group(group)).await?;
        self.shared.want(&name);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Removes a group that no live job is in; `false` if there was none. The default one stays.
    pub async fn remove_group(&self, name: &str) -> Result<bool, Error> {
        if name == DEFAULT_GROUP {
            return Err(Error::GroupStays("the default group stays"));
        }
        let phases = PhaseName::ALL.into_iter().filter(|phase| *phase != PhaseName::Ended).collect();
        let filter = Filter { phases, queue: Some(name.to_owned()), ..Filter::default() };
        let live = self.shared.journal.read(Read::Rows { filter, before: None, limit: 1 }).await?.rows();
        if !live.is_empty() {
            return Err(Error::GroupStays("a live job is in this group: cancel it or wait for it first"));
        }
        self.shared.change_groups(self.shared.journal.remove_group(name)).await
    }
}
