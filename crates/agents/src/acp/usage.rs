//! Usage as ACP agents report it. Every agent does it differently, so each report is compared with what was counted before.

use lastword_core::event::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::start::Start;
use crate::tokens::Tokens;
use crate::value::{at, micros, number};

/// The usage counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Account {
    /// The agent reports usage of the session instead of the turn.
    whole: bool,
    /// Tokens of the session counted so far.
    session: Tokens,
    /// Tokens of the turn counted so far.
    turn: Tokens,
    /// Cost of the session, if the agent reports it.
    cost: Option<u64>,
    /// Usage was reported in this turn, with or without a cost.
    updated: bool,
    /// The cost was reported in this turn.
    #[serde(rename = "told")]
    cost_reported: bool,
    /// The cost of a resumed session was reported for the first time: how much of it is new is unknown.
    #[serde(rename = "first")]
    first_cost: bool,
    /// The cost rose in this turn.
    #[serde(rename = "rose")]
    cost_rose: bool,
    /// Tokens were counted in this turn.
    paid: bool,
    /// The reported size of the conversation.
    used: u64,
    /// Usage was reported since the newest message began.
    followed: bool,
    /// That report shows a cost.
    cost_something: bool,
}

impl Account {
    /// Returns an empty account for this agent.
    pub(super) fn of(agent: &str) -> Account {
        Account { whole: agent == "Copilot", ..Account::default() }
    }

    /// Starts a turn.
    pub(super) fn begin(&mut self) {
        let Account { whole, session, cost, used, .. } = *self;
        *self = Account { whole, session, cost, used, ..Account::default() };
    }

    /// Starts a message.
    pub(super) fn message(&mut self) {
        (self.followed, self.cost_something) = (false, false);
    }

    /// Handles a `usage_update`, which may have the cost of the session so far.
    pub(super) fn costs(&mut self, start: &Start, update: &Value) -> Usage {
        (self.updated, self.followed) = (true, true);
        if let Some(used) = number(update, &["used"]) {
            self.cost_something |= used != std::mem::replace(&mut self.used, used);
        }
        // Budgets are in dollars; other currencies are ignored.
        let dollars = at(update, &["cost", "currency"]).is_none_or(|currency| currency == "USD");
        let Some(cost) = micros(update, &["cost", "amount"]).filter(|_| dollars) else {
            return Usage::default();
        };
        self.cost_reported = true;
        let before = match self.cost.replace(cost) {
            Some(before) => before,
            // The earlier cost of a resumed session is the baseline.
            None if start.resume.is_some() => {
                self.first_cost = true;
                cost
            }
            None => 0,
        };
        let money_micros = cost.saturating_sub(before);
        self.cost_rose |= money_micros > 0;
        self.cost_something |= money_micros > 0;
        Usage { money_micros, ..Usage::default() }
    }

    /// Handles the usage of one model request, which some agents attach to their chunks.
    pub(super) fn request(&mut self, start: &Start, account: &Value) -> Usage {
        let tokens = tokens(account);
        self.paid |= tokens != Tokens::default();
        self.cost_something |= tokens != Tokens::default();
        self.turn.add(tokens);
        self.session.add(tokens);
        self.priced(start, tokens)
    }

    /// Handles the usage at the end of a turn.
    pub(super) fn turn(&mut self, start: &Start, result: &Value) -> Usage {
        let account = at(result, &["usage"]).filter(|account| account.is_object());
        let account = account.or_else(|| at(result, &["_meta", "quota", "token_count"]));
        let Some(tokens) = account.filter(|account| account.is_object()).map(tokens) else {
            return Usage::default();
        };
        let more = if self.whole {
            tokens.since(self.session)
        } else if self.cost_reported && !self.cost_rose && !self.first_cost && self.cost > Some(0) {
            // This turn cost nothing, so the usage is an earlier turn's.
            Tokens::default()
        } else {
            tokens.since(self.turn)
        };
        self.paid |= more != Tokens::default();
        self.session.add(more);
        self.priced(start, more)
    }

    /// Reports whether the agent reports usage and has spent nothing in this turn.
    pub(super) fn spent_nothing(&self) -> bool {
        !self.paid && !self.cost_rose && !self.first_cost && (self.updated || self.whole)
    }

    /// Reports whether the newest message cost nothing by the agent's own report: then it is not from the model.
    pub(super) fn last_cost_nothing(&self) -> bool {
        self.followed && !self.cost_something
    }

    /// Reports whether the agent worked in this turn and neither said what that cost nor has prices.
    pub(super) fn is_unpriced(&self, start: &Start) -> bool {
        (self.updated || self.paid) && !self.cost_reported && start.price_of(None).is_none()
    }

    fn priced(&self, start: &Start, tokens: Tokens) -> Usage {
        let usage = tokens.usage(start.price_of(None));
        // A cost reported by the agent takes precedence over the user's prices.
        let priced = self.cost.is_some() && (self.cost_rose || !self.first_cost);
        let money_micros = if priced { 0 } else { usage.money_micros };
        Usage { money_micros, ..usage }
    }
}

/// Reads token counts under any of their names. Cached tokens may be part of the input count or separate; the total tells.
fn tokens(account: &Value) -> Tokens {
    let count = |names: &[&str]| names.iter().find_map(|name| number(account, &[name])).unwrap_or(0);
    let read = count(&["inputTokens", "input_tokens"]);
    let written = count(&["outputTokens", "output_tokens"]);
    let cached = count(&["cachedReadTokens", "cachedInputTokens"]);
    let stored = count(&["cachedWriteTokens", "cacheWriteInputTokens"]);
    let beside = cached.saturating_add(stored);
    let apart = number(account, &["totalTokens"]).is_some_and(|total| total > read.saturating_add(written));
    let read = if apart { read.saturating_add(beside) } else { read };
    Tokens { read, cached: cached.min(read), stored: stored.min(read), written }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cached_tokens_are_counted_once() {
        let apart = json!({ "totalTokens": 2580, "inputTokens": 1068, "cachedReadTokens": 1400, "outputTokens": 112 });
        assert_eq!(tokens(&apart), Tokens { read: 2468, cached: 1400, stored: 0, written: 112 });
        let among = json!({ "totalTokens": 2580, "inputTokens": 2468, "cachedReadTokens": 1400, "outputTokens": 112 });
        assert_eq!(tokens(&among), Tokens { read: 2468, cached: 1400, stored: 0, written: 112 });
        let gemini = json!({ "input_tokens": 2000, "output_tokens": 40 });
        assert_eq!(tokens(&gemini), Tokens { read: 2000, cached: 0, stored: 0, written: 40 });
    }
}
