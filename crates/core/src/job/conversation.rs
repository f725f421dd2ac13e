//! The conversation of a job: its place in it, and what it takes over and passes on.

use crate::conversation::{Carried, Spending};
use crate::ids::JobId;
use crate::job::Job;

impl Job {
    /// Returns what this job alone used up.
    pub fn own_spending(&self) -> Spending {
        Spending { usage: self.usage, turns: self.turns.0, active_ms: self.active_ms }
    }

    /// Returns what its conversation used up, the jobs before it included.
    pub fn spending(&self) -> Spending {
        let mut spending = self.spent_before;
        spending.add(self.own_spending());
        spending
    }

    /// Returns what the next job of its conversation takes over.
    pub fn carries(&self) -> Carried {
        Carried { spent: self.spending(), rules: self.rules.clone(), rules_made: self.rules_made }
    }

    /// Returns the job that began its conversation; none if it has no turns.
    pub fn conversation(&self) -> Option<JobId> {
        self.reports_turns().then(|| self.position.map_or(self.id, |position| position.first))
    }

    /// Returns its number in its conversation.
    pub fn number(&self) -> u32 {
        self.position.map_or(1, |position| position.number)
    }
}
