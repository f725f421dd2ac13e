//! What an agent says it used. There are as many ways to say it as agents, so each account is held against what was counted before.

use lastword_core::event::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Start;
use crate::tokens::Tokens;
use crate::value::{at, micros, number};

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Account {
    /// The agent accounts for its session, not for its turns.
    whole: bool,
    /// Tokens of the session that were counted.
    session: Tokens,
    /// Tokens of the turn that were counted.
    turn: Tokens,
    /// What the session has cost, if the agent says so.
    cost: Option<u64>,
    /// An account was given in this turn, with or without a cost.
    updated: bool,
    /// The cost was said in this turn.
    told: bool,
    /// It was said for the first time, of a session that was resumed: nobody knows what of it is new.
    first: bool,
    /// It rose in this turn.
    rose: bool,
    /// Tokens were counted in this turn.
    paid: bool,
    /// How large the conversation was said to be.
    used: u64,
    /// An account was given since the newest message began.
    followed: bool,
    /// By that account it has cost something.
    cost_something: bool,
}

impl Account {
    /// Takes note of who it is.
    pub(super) fn of(agent: &str) -> Account {
        Account { whole: agent == "Copilot", ..Account::default() }
    }

    /// Takes note that a turn begins.
    pub(super) fn begin(&mut self) {
        let Account { whole, session, cost, used, .. } = *self;
        *self = Account { whole, session, cost, used, ..Account::default() };
    }

    /// Takes note that a message begins.
    pub(super) fn message(&mut self) {
        (self.followed, self.cost_something) = (false, false);
    }

    /// Takes what a `usage_update` says: the cost of the session so far, if anything.
    pub(super) fn costs(&mut self, start: &Start, update: &Value) -> Usage {
        (self.updated, self.followed) = (true, true);
        if let Some(used) = number(update, &["used"]) {
            self.cost_something |= used != std::mem::replace(&mut self.used, used);
        }
        // Other currencies are not money that a budget is in.
        let dollars = at(update, &["cost", "currency"]).is_none_or(|currency| currency == "USD");
        let Some(cost) = micros(update, &["cost", "amount"]).filter(|_| dollars) else {
            return Usage::default();
        };
        self.told = true;
        let before = match self.cost.replace(cost) {
            Some(before) => before,
            // What a session of former times cost is where this one goes on from.
            None if start.resume.is_some() => {
                self.first = true;
                cost
            }
            None => 0,
        };
        let money_micros = cost.saturating_sub(before);
        self.rose |= money_micros > 0;
        self.cost_something |= money_micros > 0;
        Usage { money_micros, ..Usage::default() }
    }

    /// Takes the account of one request, which some agents put into their chunks.
    pub(super) fn request(&mut self, start: &Start, account: &Value) -> Usage {
        let tokens = tokens(account);
        self.paid |= tokens != Tokens::default();
        self.cost_something |= tokens != Tokens::default();
        self.turn.add(tokens);
        self.session.add(tokens);
        self.priced(start, tokens)
    }

    /// Takes the account at the end of a turn.
    pub(super) fn turn(&mut self, start: &Start, result: &Value) -> Usage {
        let account = at(result, &["usage"]).filter(|account| account.is_object());
        let account = account.or_else(|| at(result, &["_meta", "quota", "token_count"]));
        let Some(said) = account.filter(|account| account.is_object()).map(tokens) else {
            return Usage::default();
        };
        let more = if self.whole {
            said.since(self.session)
        } else if self.told && !self.rose && !self.first && self.cost > Some(0) {
            // It cost nothing, so this is the account of an earlier turn.
            Tokens::default()
        } else {
            said.since(self.turn)
        };
        self.paid |= more != Tokens::default();
        self.session.add(more);
        self.priced(start, more)
    }

    /// Reports whether the agent accounts for what it spends, and has spent nothing in this turn.
    pub(super) fn spent_nothing(&self) -> bool {
        !self.paid && !self.rose && !self.first && (self.updated || self.whole)
    }

    /// Reports whether the agent has accounted for its newest message, and it cost nothing: then it is not its model's.
    pub(super) fn last_cost_nothing(&self) -> bool {
        self.followed && !self.cost_something
    }

    fn priced(&self, start: &Start, tokens: Tokens) -> Usage {
        let usage = tokens.usage(start.prices);
        // An agent that says what it costs is believed.
        let said = self.cost.is_some() && (self.rose || !self.first);
        let money_micros = if said { 0 } else { usage.money_micros };
        Usage { money_micros, ..usage }
    }
}

/// Returns an account, by the several names that its parts have. Tokens read from a cache may be among those read, or beside them;
/// the sum tells.
fn tokens(account: &Value) -> Tokens {
    let count = |names: &[&str]| names.iter().find_map(|name| number(account, &[name])).unwrap_or(0);
    let read = count(&["inputTokens", "input_tokens"]);
    let written = count(&["outputTokens", "output_tokens"]);
    let cached = count(&["cachedReadTokens", "cachedInputTokens"]);
    let stored = count(&["cachedWriteTokens", "cacheWriteInputTokens"]);
    let beside = cached.saturating_add(stored);
    let apart = number(account, &["totalTokens"]).is_some_and(|total| total > read.saturating_add(written));
    let read = if apart { read.saturating_add(beside) } else { read };
    Tokens { read, cached: cached.min(read), written }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cached_tokens_are_counted_once_wherever_they_are() {
        let apart = json!({ "totalTokens": 2580, "inputTokens": 1068, "cachedReadTokens": 1400, "outputTokens": 112 });
        assert_eq!(tokens(&apart), Tokens { read: 2468, cached: 1400, written: 112 });
        let among = json!({ "totalTokens": 2580, "inputTokens": 2468, "cachedReadTokens": 1400, "outputTokens": 112 });
        assert_eq!(tokens(&among), Tokens { read: 2468, cached: 1400, written: 112 });
        let gemini = json!({ "input_tokens": 2000, "output_tokens": 40 });
        assert_eq!(tokens(&gemini), Tokens { read: 2000, cached: 0, written: 40 });
    }
}
