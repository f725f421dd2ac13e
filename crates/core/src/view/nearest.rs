//! The limit of a job that is nearest to being reached, among those that need no clock to be measured.

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::limits::Limit;

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Used {
    /// The limit.
    pub limit: Limit,
    /// How much is used, in the unit of the limit.
    pub used: u64,
    /// How much is allowed.
    pub allowed: u64,
}

impl Used {
    /// Returns the limit of which the greatest part is used: of turns, tokens, money, and the time of ended turns, as a conversation
    /// spends them. `None` without such a limit.
    pub(super) fn nearest(job: &Job) -> Option<Used> {
        let spent = job.spending();
        let spent = [
            (Limit::Money, spent.usage.money_micros),
            (Limit::Tokens, spent.usage.tokens()),
            (Limit::Turns, u64::from(spent.turns)),
            (Limit::Active, spent.active_ms),
        ];
        let limited = spent
            .into_iter()
            .filter_map(|(limit, used)| Some(Used { limit, used, allowed: job.limits.get(limit)? }));
        limited.reduce(|nearest, other| if other.is_nearer(nearest) { other } else { nearest })
    }

    fn is_nearer(self, other: Used) -> bool {
        u128::from(self.used) * u128::from(other.allowed) > u128::from(other.used) * u128::from(self.allowed)
    }
}
