//! Groups in memory.

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

    async fn remove_group(&self, name: &str) -> Result<bool> {
        Ok(self.ledger().remove_group(name))
    }
}
