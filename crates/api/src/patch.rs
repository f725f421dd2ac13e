//! Merge patches: a field that is null differs from one that is absent.

use serde::{Deserialize, Deserializer};

/// Reads a field that is present: null is `Some(None)`, so that serde's default can mean absent.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
