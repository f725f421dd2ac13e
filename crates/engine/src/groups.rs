//! Groups: how many of their jobs may be held at once, and whether any are taken at all.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lastword_core::decide::Refusal;
use lastword_core::spec::DEFAULT_QUEUE;
use lastword_core::view::row::PhaseName;
use lastword_store::siblings::{Group, Siblings};
use lastword_store::{self as store, Filter, Read};

use crate::shared::{Shared, lock};
use crate::{Engine, Error};

/// Slots of a group that nobody made: one job after the other.
const SLOTS_UNASKED: u32 = 1;

/// The groups as they are stored: written through, so that a claim need not read them first.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<BTreeMap<String, Group>>);

impl Groups {
    /// Returns a group.
    pub(crate) fn get(&self, name: &str) -> Option<Group> {
        lock(&self.0).get(name).cloned()
    }

    /// Returns every group's name.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.0).keys().cloned().collect()
    }

    fn set(&self, groups: Vec<Group>) {
        *lock(&self.0) = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
    }
}

impl<J: Siblings> Shared<J> {
    /// Reads the groups. The default one is always there; as long as nobody has changed it, the options say how large it is.
    pub(crate) async fn read_groups(&self) -> Result<Vec<Group>, store::Error> {
        let mut groups = self.journal.groups().await?;
        if !groups.iter().any(|group| group.name == DEFAULT_QUEUE) {
            let (name, slots) = (DEFAULT_QUEUE.to_owned(), self.options.default_slots);
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
        // The first one may be asked for before this life has read any.
        self.read_groups().await?;
        if self.groups.get(name).is_some() {
            return Ok(());
        }
        let group = Group { name: name.to_owned(), slots: Some(SLOTS_UNASKED), paused: false };
        self.journal.add_group(group).await?;
        self.read_groups().await.map(drop)
    }
}

impl<J: Siblings> Engine<J> {
    /// Returns every group, by name.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        Ok(self.shared.read_groups().await?)
    }

    /// Makes a group or changes it, and takes what may be taken now.
    pub async fn set_group(&self, group: Group) -> Result<(), Error> {
        let name = group.name.clone();
        self.shared.journal.set_group(group).await?;
        self.shared.read_groups().await?;
        self.shared.want(&name);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Removes a group that no live job is in; `false` if there was none. The default one stays.
    pub async fn remove_group(&self, name: &str) -> Result<bool, Error> {
        if name == DEFAULT_QUEUE {
            return Err(Refusal::Invalid("the default group stays").into());
        }
        let phases = PhaseName::ALL.into_iter().filter(|phase| *phase != PhaseName::Ended).collect();
        let filter = Filter { phases, queue: Some(name.to_owned()), ..Filter::default() };
        let live = self.shared.journal.read(Read::Rows { filter, before: None, limit: 1 }).await?.rows();
        if !live.is_empty() {
            return Err(
                Refusal::Invalid("a live job is in this group: cancel it or wait for it first").into()
            );
        }
        let removed = self.shared.journal.remove_group(name).await?;
        self.shared.read_groups().await?;
        Ok(removed)
    }
}
