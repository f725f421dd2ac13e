//! Tokens and money that a job or a session used.

use lastword_core::event;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens and money spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Money, in millionths of a dollar.
    pub money_micros: u64,
}

impl Usage {
    pub(crate) fn of(usage: event::Usage) -> Usage {
        Usage { tokens_in: usage.tokens_in, tokens_out: usage.tokens_out, money_micros: usage.money_micros }
    }
}
