//! The groups as the journal has them, and what they spent today, cached: they say whether a claim is worth a try. What the journal stores
//! binds the claim itself.

use std::collections::BTreeMap;
use std::sync::Mutex;

use lastword_core::budget::{Day, Spent, Standing};
use lastword_store::Group;

use crate::lock::lock;

/// The stored groups, written through. A stale one delays a claim until the next sweep, but never lets it take too many.
#[derive(Debug)]
pub(crate) struct GroupCache {
    known: Mutex<Known>,
    /// Slots of the default group until it is set.
    pub(super) default_slots: Option<u32>,
    /// Held while groups are read or changed, so that an older read never overwrites a newer one.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    groups: BTreeMap<String, Group>,
    /// What their jobs spent on a day.
    spent: BTreeMap<String, Spent>,
    day: Day,
}

impl Known {
    /// Returns what the jobs of a group spent today. At the beginning of a day that is nothing.
    fn spent(&self, group: &str, today: Day) -> Spent {
        self.spent.get(group).copied().filter(|_| self.day == today).unwrap_or_default()
    }

    /// Reports whether nothing is left of the budget of a group, and what it means for its jobs.
    fn budget(&self, group: &str, today: Day) -> (bool, Standing) {
        let Some(Group { budget, .. }) = self.groups.get(group) else { return Default::default() };
        let spent = self.spent(group, today);
        (budget.is_used_up(&spent), Standing::of(budget, &spent))
    }
}

impl GroupCache {
    pub(crate) fn new(default_slots: Option<u32>) -> GroupCache {
        GroupCache { known: Mutex::default(), default_slots, turn: tokio::sync::Mutex::default() }
    }

    /// Returns a group.
    pub(crate) fn get(&self, name: &str) -> Option<Group> {
        lock(&self.known).groups.get(name).cloned()
    }

    /// Returns the names of all groups.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.known).groups.keys().cloned().collect()
    }

    /// Waits for the turn to read or change the groups.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Returns where the budget of a group stands.
    pub(super) fn standing(&self, name: &str, today: Day) -> Standing {
        lock(&self.known).budget(name, today).1
    }

    /// Reports whether nothing is left of the budget of a group.
    pub(super) fn is_used_up(&self, name: &str, today: Day) -> bool {
        lock(&self.known).budget(name, today).0
    }

    /// Reports whether what was spent must be read again, because another day has begun.
    pub(crate) fn is_of_another_day(&self, today: Day) -> bool {
        lock(&self.known).day != today
    }

    /// Replaces what is known. Returns the groups whose budget stands otherwise than before.
    pub(super) fn set(&self, groups: Vec<Group>, today: Day, spent: Vec<(String, Spent)>) -> Vec<String> {
        let groups = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
        let known = Known { groups, spent: spent.into_iter().collect(), day: today };
        let mut before = lock(&self.known);
        let day = before.day;
        let moved = |name: &&String| before.budget(name, day) != known.budget(name, today);
        let moved = known.groups.keys().filter(moved).cloned().collect();
        *before = known;
        moved
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::budget::Budget;

    use super::*;

    #[test]
    fn a_budget_is_new_with_each_day() {
        let cache = GroupCache::new(None);
        let night =
            Group { budget: Budget { tokens: Some(5), money_micros: None }, ..Group::new("night", None) };
        let groups = || vec![Group::new("default", None), night.clone()];
        let spent = |tokens| vec![("night".to_owned(), Spent { tokens, money_micros: 0 })];
        let (today, tomorrow) = (Day(3), Day(4));
        assert_eq!(cache.set(groups(), today, spent(4)), Vec::<String>::new());
        assert!(!cache.is_used_up("night", today) && !cache.is_of_another_day(today));
        assert_eq!(cache.set(groups(), today, spent(5)), ["night"]);
        assert!(cache.is_used_up("night", today) && cache.standing("night", today).exceeded.is_none());
        assert_eq!(cache.set(groups(), today, spent(6)), ["night"]);
        assert!(cache.standing("night", today).exceeded.is_some());
        assert_eq!(cache.set(groups(), today, spent(6)), Vec::<String>::new(), "nothing changed");
        assert!(!cache.is_used_up("default", today));
        // Before it is read again, and after.
        assert!(cache.is_of_another_day(tomorrow) && !cache.is_used_up("night", tomorrow));
        assert_eq!(cache.standing("night", tomorrow).exceeded, None);
        assert_eq!(cache.set(groups(), tomorrow, vec![]), ["night"]);
        assert!(!cache.is_of_another_day(tomorrow));
    }
}
