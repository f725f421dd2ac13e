//! The fact that a limit was reached, which stops a job whatever a damaged journal says about it.

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::AttemptNo;
use crate::limits::Limit;

/// A limit was reached. Every field has a default, so that a damaged one still stops the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitFired {
    /// The attempt it stops.
    #[serde(deserialize_with = "lenient")]
    pub attempt: AttemptNo,
    /// The limit.
    #[serde(deserialize_with = "lenient")]
    pub limit: Limit,
    /// The measured value.
    #[serde(deserialize_with = "lenient")]
    pub measured: u64,
    /// The allowed value.
    #[serde(deserialize_with = "lenient")]
    pub allowed: u64,
}

/// Parses a field, with the default if it does not fit its type.
fn lenient<'de, D: Deserializer<'de>, T: Default + for<'a> Deserialize<'a>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
