//! The bodies of facts about the provider of an agent.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptNo, Timestamp};
use crate::provider::{Refused, Wait};

bodies! {
    /// The provider of the agent refused to answer.
    ProviderRefused {
        /// The offset in the recording.
        offset: u64,
        /// Why.
        why: Refused,
        /// Until when, if it said so.
        until: Option<Timestamp>,
    }
    /// It waits until its provider answers again, and another attempt will follow.
    ProviderAwaited {
        /// The next attempt.
        attempt: AttemptNo,
        /// How it waits.
        wait: Wait,
    }
    /// It may ask its provider again.
    ProviderOpened {
        /// The earliest time for that.
        due: Timestamp,
    }
}
