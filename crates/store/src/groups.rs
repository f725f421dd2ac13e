//! Groups: how many of their jobs may be held at once, what they may spend in a day, and whether any are claimed.

use std::future::Future;

use lastword_core::budget::{Budget, Day, Spent};

use crate::Result;

/// Stores groups. A claim reads the group it takes from in its own transaction, so a change counts from the next claim on.
pub trait Groups: Clone + Send + Sync + 'static {
    /// Returns every group, by name.
    fn groups(&self) -> impl Future<Output = Result<Vec<Group>>> + Send;

    /// Creates a group unless there is one of that name, and returns the one that is stored.
    fn add_group(&self, group: Group) -> impl Future<Output = Result<Group>> + Send;

    /// Creates a group or replaces it.
    fn set_group(&self, group: Group) -> impl Future<Output = Result<()>> + Send;

    /// Returns what the jobs of each group spent on a day, of groups whose jobs spent anything. It counts what appends store, and is kept when
    /// jobs are removed.
    fn spent(&self, day: Day) -> impl Future<Output = Result<Vec<(String, Spent)>>> + Send;

    /// Removes a group; `false` if there is none. Its jobs stay.
    fn remove_group(&self, name: &str) -> impl Future<Output = Result<bool>> + Send;
}

/// A group of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many of its jobs may be held at once; `None` is no bound.
    pub slots: Option<u32>,
    /// None of its jobs is claimed. Running jobs go on.
    pub paused: bool,
    /// What its jobs may spend in a day. None is claimed once that is used up.
    pub budget: Budget,
}

impl Group {
    /// Returns a group that is open, with as many slots and no budget.
    pub fn new(name: &str, slots: Option<u32>) -> Group {
        Group { name: name.to_owned(), slots, paused: false, budget: Budget::default() }
    }
}
