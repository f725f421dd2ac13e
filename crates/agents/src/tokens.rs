//! Token counts as agents report them, and their cost at the user's prices.

use lastword_core::event::Usage;
use lastword_core::spec::Prices;
use serde::{Deserialize, Serialize};

/// A count of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    /// Input tokens, cached ones included.
    pub(crate) read: u64,
    /// Input tokens read from a cache.
    pub(crate) cached: u64,
    /// Output tokens.
    pub(crate) written: u64,
}

impl Tokens {
    /// Returns the difference to an earlier count, saturating at zero.
    pub(crate) fn since(self, before: Tokens) -> Tokens {
        Tokens {
            read: self.read.saturating_sub(before.read),
            cached: self.cached.saturating_sub(before.cached),
            written: self.written.saturating_sub(before.written),
        }
    }

    /// Adds another count to this one.
    pub(crate) fn add(&mut self, more: Tokens) {
        self.read = self.read.saturating_add(more.read);
        self.cached = self.cached.saturating_add(more.cached);
        self.written = self.written.saturating_add(more.written);
    }

    /// Converts to core's usage, at these prices.
    pub(crate) fn usage(self, prices: Option<Prices>) -> Usage {
        let prices = prices.unwrap_or_default();
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let fresh = self.read.saturating_sub(self.cached);
        let millionths = cost(fresh, prices.tokens_in)
            .saturating_add(cost(self.cached, prices.cached))
            .saturating_add(cost(self.written, prices.tokens_out));
        let money_micros = u64::try_from(millionths / 1_000_000).unwrap_or(u64::MAX);
        Usage { tokens_in: self.read, tokens_out: self.written, money_micros }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let prices = Prices { tokens_in: 2_000_000, cached: 500_000, tokens_out: 10_000_000 };
        let tokens = Tokens { read: 1_000, cached: 400, written: 50 };
        let usage = Usage { tokens_in: 1_000, tokens_out: 50, money_micros: 1_200 + 200 + 500 };
        assert_eq!(tokens.usage(Some(prices)), usage);
        assert_eq!(tokens.usage(None), Usage { money_micros: 0, ..usage });
        let most = Tokens { read: u64::MAX, cached: 0, written: u64::MAX };
        let dear = Prices { tokens_in: u64::MAX, cached: 0, tokens_out: u64::MAX };
        assert_eq!(most.usage(Some(dear)).money_micros, u64::MAX);
    }
}
