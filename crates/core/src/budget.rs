//! The budget of a group: what its jobs may spend together in a day.
//!
//! A day is one of UTC, so that every host of a fleet means the same one. What a job spends belongs to the day of the fact that says so.
//! A group whose budget is used up starts nothing until the day is over; a turn that exceeds it is stopped like one that exceeds a limit of
//! its own job.

use crate::event::{Event, Fact};
use crate::ids::Timestamp;
use crate::limits::{Limit, Limits, Reached};

const DAY_MS: u64 = 86_400_000;

/// A day of UTC, counted from the first of January 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u64);

impl Day {
    /// Returns the day of a moment.
    pub fn of(at: Timestamp) -> Day {
        Day(at.0 / DAY_MS)
    }

    /// Returns the moment at which the next day begins.
    pub fn end(self) -> Timestamp {
        Timestamp((self.0 + 1).saturating_mul(DAY_MS))
    }
}

/// What the jobs of a group may spend in a day. An absent amount is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Input and output tokens.
    pub tokens: Option<u64>,
    /// Money, in millionths of a dollar.
    pub money_micros: Option<u64>,
}

/// What the jobs of a group spent in a day. Less than nothing if more was taken back than counted: an agent's own total may correct
/// what was counted the day before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Input and output tokens.
    pub tokens: i64,
    /// Money, in millionths of a dollar.
    pub money_micros: i64,
}

/// The largest sum, and the largest amount, in either direction. An agent may claim anything: no two of them overflow.
pub const SPENT_MAX: i64 = 1 << 61;

impl Spent {
    /// Adds an amount.
    pub fn add(&mut self, more: Spent) {
        let sum = |one: i64, other: i64| (one + other).clamp(-SPENT_MAX, SPENT_MAX);
        self.tokens = sum(self.tokens, more.tokens);
        self.money_micros = sum(self.money_micros, more.money_micros);
    }
}

/// Returns what new events of a job spend, by day.
pub fn spent_by(events: &[Event]) -> Vec<(Day, Spent)> {
    let mut days: Vec<(Day, Spent)> = Vec::new();
    for event in events {
        let Fact::Spent(spent) = &event.fact else { continue };
        let signed = |amount: u64| i64::try_from(amount).map_or(SPENT_MAX, |amount| amount.min(SPENT_MAX));
        let money_micros = signed(spent.usage.money_micros) - signed(spent.overcounted_micros);
        let (day, more) = (Day::of(event.at), Spent { tokens: signed(spent.usage.tokens()), money_micros });
        match days.last_mut() {
            Some((last, sum)) if *last == day => sum.add(more),
            _ => days.push((day, more)),
        }
    }
    days
}

impl Budget {
    /// Reports whether anything is bounded.
    pub fn is_set(&self) -> bool {
        *self != Budget::default()
    }

    /// Reports whether nothing is left: no job may be started.
    pub fn is_used_up(&self, spent: &Spent) -> bool {
        self.amounts(spent).any(|(_, measured, allowed)| measured >= allowed)
    }

    /// Returns the first amount that is exceeded.
    pub fn exceeded(&self, spent: &Spent) -> Option<Reached> {
        let mut over = self.amounts(spent).filter(|(_, measured, allowed)| measured > allowed);
        over.next().map(|(limit, measured, allowed)| Reached { limit, measured, allowed })
    }

    /// Returns the limits that a job of the group must be able to measure.
    pub(crate) fn limits(&self) -> Limits {
        Limits { tokens: self.tokens, money_micros: self.money_micros, ..Limits::default() }
    }

    /// Returns each bounded amount: as a limit, what was spent, what is allowed.
    fn amounts(&self, spent: &Spent) -> impl Iterator<Item = (Limit, u64, u64)> {
        let positive = |amount: i64| u64::try_from(amount).unwrap_or(0);
        [
            (Limit::GroupTokens, positive(spent.tokens), self.tokens),
            (Limit::GroupMoney, positive(spent.money_micros), self.money_micros),
        ]
        .into_iter()
        .filter_map(|(limit, measured, allowed)| Some((limit, measured, allowed?)))
    }
}

/// The budget of its group, as a job is told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Whether money is bounded.
    pub bounds_money: bool,
    /// What is exceeded today.
    pub exceeded: Option<Reached>,
}

impl Standing {
    /// Returns where a group stands.
    pub fn of(budget: &Budget, spent: &Spent) -> Standing {
        Standing { bounds_money: budget.money_micros.is_some(), exceeded: budget.exceeded(spent) }
    }
}
