//! Token counts as agents report them, and their cost at the user's prices.

use lastword_core::event::Usage;
use lastword_core::spec::{LongPrices, Prices};
use serde::{Deserialize, Serialize};

/// A count of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    /// Input tokens, cached ones included.
    pub(crate) read: u64,
    /// Input tokens read from a cache.
    pub(crate) cached: u64,
    /// Input tokens stored in a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) stored: u64,
    /// Output tokens.
    pub(crate) written: u64,
}

impl Tokens {
    /// Returns the difference to an earlier count, saturating at zero.
    pub(crate) fn since(self, before: Tokens) -> Tokens {
        Tokens {
            read: self.read.saturating_sub(before.read),
            cached: self.cached.saturating_sub(before.cached),
            stored: self.stored.saturating_sub(before.stored),
            written: self.written.saturating_sub(before.written),
        }
    }

    /// Adds another count to this one.
    pub(crate) fn add(&mut self, more: Tokens) {
        self.read = self.read.saturating_add(more.read);
        self.cached = self.cached.saturating_add(more.cached);
        self.stored = self.stored.saturating_add(more.stored);
        self.written = self.written.saturating_add(more.written);
    }

    /// Converts to core's usage, at these prices.
    pub(crate) fn usage(self, prices: Option<Prices>) -> Usage {
        let prices = prices.unwrap_or_default();
        let prices = match prices.long.filter(|long| self.read > long.above) {
            Some(LongPrices { tokens_in, cached, tokens_out, stored, .. }) => {
                Prices { tokens_in, cached, tokens_out, stored: Some(stored), long: None }
            }
            None => prices,
        };
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let fresh = self.read.saturating_sub(self.cached).saturating_sub(self.stored);
        let millionths = cost(fresh, prices.tokens_in)
            .saturating_add(cost(self.cached, prices.cached))
            .saturating_add(cost(self.stored, prices.stored.unwrap_or(prices.tokens_in)))
            .saturating_add(cost(self.written, prices.tokens_out));
        let money_micros = u64::try_from(millionths / 1_000_000).unwrap_or(u64::MAX);
        Usage { tokens_in: self.read, tokens_out: self.written, money_micros }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let prices =
            Prices { tokens_in: 2_000_000, cached: 500_000, tokens_out: 10_000_000, ..Prices::default() };
        let tokens = Tokens { read: 1_000, cached: 400, stored: 0, written: 50 };
        let usage = Usage { tokens_in: 1_000, tokens_out: 50, money_micros: 1_200 + 200 + 500 };
        assert_eq!(tokens.usage(Some(prices)), usage);
        assert_eq!(tokens.usage(None), Usage { money_micros: 0, ..usage });
        let most = Tokens { read: u64::MAX, written: u64::MAX, ..Tokens::default() };
        let dear = Prices { tokens_in: u64::MAX, tokens_out: u64::MAX, ..Prices::default() };
        assert_eq!(most.usage(Some(dear)).money_micros, u64::MAX);
        // Tokens that are stored are part of the input, and a long request has its own prices.
        let long =
            LongPrices { above: 1_000, tokens_in: 4_000_000, cached: 0, tokens_out: 0, stored: 5_000_000 };
        let prices = Prices { stored: Some(3_000_000), long: Some(long), ..prices };
        let tokens = Tokens { read: 1_000, cached: 400, stored: 100, written: 50 };
        assert_eq!(tokens.usage(Some(prices)).money_micros, 1_000 + 200 + 300 + 500);
        let tokens = Tokens { read: 1_001, ..tokens };
        assert_eq!(tokens.usage(Some(prices)).money_micros, 501 * 4 + 500);
    }
}
