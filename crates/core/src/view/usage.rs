//! The usage view: what a job spent in total, per attempt and per turn.
//!
//! It counts failed and cancelled turns too. The usage in a conversation differs: that is the agent's own account of its completed
//! turns.

use serde::{Deserialize, Serialize};

use crate::event::{Event, Fact, Usage};
use crate::ids::{AttemptNo, TurnNo};

/// What a job spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UsageView {
    /// The total, which limits apply to.
    pub total: Usage,
    /// Per attempt, for those that spent anything.
    pub attempts: Vec<(AttemptNo, Usage)>,
    /// Per turn, for those that spent anything.
    pub turns: Vec<(TurnNo, Usage)>,
    /// Outside turns.
    pub between_turns: Usage,
}

impl UsageView {
    /// Returns the usage in a log. The log must be valid.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> UsageView {
        let mut view = UsageView::default();
        let mut attempt = AttemptNo(0);
        let mut active = None;
        for event in events {
            match &event.fact {
                Fact::LaunchIntended(intent) => attempt = intent.attempt,
                Fact::TurnStarted(started) => active = Some(started.turn),
                Fact::TurnEnded(_) | Fact::AttemptEnded(_) => active = None,
                Fact::SessionChanged(changed) if !changed.state.may_hold_turn() => active = None,
                Fact::Spent(spent) => {
                    view.spend(attempt, active, spent.usage);
                    view.correct(active, spent.overcounted_micros);
                }
                _ => {}
            }
        }
        view
    }

    fn spend(&mut self, attempt: AttemptNo, turn: Option<TurnNo>, usage: Usage) {
        self.total.add(usage);
        add_to(&mut self.attempts, attempt, usage);
        match turn {
            Some(turn) => add_to(&mut self.turns, turn, usage),
            None => self.between_turns.add(usage),
        }
    }
}

impl UsageView {
    /// Takes back money that was counted too much.
    fn correct(&mut self, turn: Option<TurnNo>, micros: u64) {
        let attempt = self.attempts.last_mut().map(|(_, sum)| sum);
        let turn = match turn {
            Some(_) => self.turns.last_mut().map(|(_, sum)| sum),
            None => Some(&mut self.between_turns),
        };
        for sum in attempt.into_iter().chain(turn).chain([&mut self.total]) {
            sum.money_micros = sum.money_micros.saturating_sub(micros);
        }
    }
}

/// Adds to the last entry, or appends one: a log never returns to an earlier attempt or turn.
fn add_to<K: PartialEq>(entries: &mut Vec<(K, Usage)>, key: K, usage: Usage) {
    match entries.last_mut() {
        Some((last, sum)) if *last == key => sum.add(usage),
        _ => entries.push((key, usage)),
    }
}
