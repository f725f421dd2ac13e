//! Groups in memory.

use lastword_core::Append;
use lastword_core::budget::{Day, Spent, spent_by};

use super::{Ledger, Memory};
use crate::{Group, Groups, Result};

impl Ledger {
    /// Returns every group, by name.
    pub fn groups(&self) -> Vec<Group> {
        self.groups.values().cloned().collect()
    }

    /// Creates a group unless there is one of that name, and returns the one that is stored.
    pub fn add_group(&mut self, group: Group) -> Group {
        self.groups.entry(group.name.clone()).or_insert(group).clone()
    }

    /// Creates a group or replaces it.
    pub fn set_group(&mut self, group: Group) {
        self.groups.insert(group.name.clone(), group);
    }

    /// Returns what the jobs of each group spent on a day.
    pub fn spent(&self, day: Day) -> Vec<(String, Spent)> {
        let on_day = self.spent.range((day, String::new())..(Day(day.0 + 1), String::new()));
        on_day.map(|((_, group), spent)| (group.clone(), *spent)).collect()
    }

    /// Returns what the jobs of a group spent on a day.
    pub(super) fn spent_in(&self, group: &str, day: Day) -> Spent {
        self.spent.get(&(day, group.to_owned())).copied().unwrap_or_default()
    }

    /// Counts what an append spends.
    pub(super) fn spend(&mut self, append: &Append) {
        for (day, spent) in spent_by(&append.events) {
            self.spent.entry((day, append.row.group.clone())).or_default().add(spent);
        }
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &str) -> bool {
        self.groups.remove(name).is_some()
    }
}

impl Groups for Memory {
    async fn groups(&self) -> Result<Vec<Group>> {
        Ok(self.ledger().groups())
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        Ok(self.ledger().add_group(group))
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.ledger().set_group(group);
        Ok(())
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        Ok(self.ledger().spent(day))
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        Ok(self.ledger().remove_group(name))
    }
}
