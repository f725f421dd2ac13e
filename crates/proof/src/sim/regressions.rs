//! Seeds that once broke a promise, each with what it broke. They are run again by a test, for ever.

/// A seed, and what it found.
pub const SEEDS: &[(u64, &str)] = &[];
