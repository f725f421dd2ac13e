//! Groups: how many of their jobs may run at once, what they may spend in a day, and whether any are claimed at all.

use std::future::Future;

use lastword_core::Timestamp;
use lastword_core::budget::{Day, Spent, Standing};
use lastword_core::spec::DEFAULT_GROUP;
use lastword_core::view::row::PhaseName;
use lastword_store::{self as store, Filter, Group, GroupCounts, Store};

use super::Desk;
use crate::Error;

/// Slots of a group that was named and not set up: one job after the other.
pub const UNSET_SLOTS: u32 = 1;

impl<J: Store> Desk<J> {
    /// Returns every group, by name. The default group always exists; its size is an option until it is set.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        Ok(self.read_groups().await?)
    }

    /// Reports whether a group is paused: no job of it is started.
    pub fn is_paused(&self, name: &str) -> bool {
        self.groups.get(name).is_some_and(|group| group.paused)
    }

    /// Returns when a group may spend something again, if its budget for today is used up.
    pub fn budget_until(&self, name: &str) -> Option<Timestamp> {
        let today = Day::of(self.now().wall);
        self.groups.is_used_up(name, today).then(|| today.end())
    }

    /// Returns where the budget of a group stands.
    pub(crate) fn standing(&self, name: &str) -> Standing {
        self.groups.standing(name, Day::of(self.now().wall))
    }

    /// Counts live jobs by group and phase.
    pub async fn counts_by_group(&self) -> Result<GroupCounts, Error> {
        Ok(self.journal.counts_by_group().await?)
    }

    /// Returns what the jobs of each group spent today.
    pub async fn spent_today(&self) -> Result<Vec<(String, Spent)>, Error> {
        Ok(self.journal.spent(Day::of(self.now().wall)).await?)
    }

    /// Creates a group or changes it, and wakes the worker to claim from it. Workers elsewhere are told that what they know of it is old.
    pub async fn set_group(&self, group: Group) -> Result<(), Error> {
        let name = group.name.clone();
        self.change_groups(self.journal.set_group(group)).await?;
        if let Some(workers) = &self.workers {
            workers.groups_changed();
        }
        self.agenda.claim(&name);
        self.agenda.wake();
        Ok(())
    }

    /// Removes a group without live jobs; `false` if there is none of that name. The default group stays.
    pub async fn remove_group(&self, name: &str) -> Result<bool, Error> {
        if name == DEFAULT_GROUP {
            return Err(Error::GroupStays("the default group stays"));
        }
        let filter =
            Filter { phases: PhaseName::LIVE.into(), group: Some(name.to_owned()), ..Filter::default() };
        let live = self.journal.rows(filter, None, 1).await?;
        if !live.is_empty() {
            return Err(Error::GroupStays("a live job is in this group: cancel it or wait for it first"));
        }
        self.change_groups(self.journal.remove_group(name)).await
    }

    /// Reads the groups into the cache.
    pub(crate) async fn read_groups(&self) -> Result<Vec<Group>, store::Error> {
        let _turn = self.groups.turn().await;
        self.read_in_turn().await
    }

    /// Creates the group that a job names, unless it exists.
    pub(crate) async fn create_group(&self, name: &str) -> Result<(), store::Error> {
        if self.groups.get(name).is_some() {
            return Ok(());
        }
        let _turn = self.groups.turn().await;
        // A request may come before the first read.
        self.read_in_turn().await?;
        if self.groups.get(name).is_some() {
            return Ok(());
        }
        self.journal.add_group(Group::new(name, Some(UNSET_SLOTS))).await?;
        self.read_in_turn().await.map(drop)
    }

    async fn read_in_turn(&self) -> Result<Vec<Group>, store::Error> {
        let mut groups = self.journal.groups().await?;
        if !groups.iter().any(|group| group.name == DEFAULT_GROUP) {
            groups.push(Group::new(DEFAULT_GROUP, self.groups.default_slots));
            groups.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let today = Day::of(self.now().wall);
        let spent = match groups.iter().any(|group| group.budget.is_set()) {
            true => self.journal.spent(today).await?,
            false => Vec::new(),
        };
        for group in self.groups.set(groups.clone(), today, spent) {
            self.budget_changed(&group, today);
        }
        Ok(groups)
    }

    /// Tells the jobs of a group that its budget is exceeded, or no longer, and claims from it once it is not used up.
    fn budget_changed(&self, group: &str, today: Day) {
        let at = if self.groups.is_used_up(group, today) { today.end() } else { self.now().wall };
        self.agenda.due.add(at, group);
        self.agenda.tasks.nudge_all();
        self.agenda.wake();
    }

    /// Changes groups and reads them again. If the result is unknown, the worker's sweep reads them.
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
            self.agenda.ask_for_sweep();
            self.agenda.wake();
            error.into()
        })
    }
}
