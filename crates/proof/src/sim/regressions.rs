//! Seeds that once broke a promise, each with what it broke. They are run again by a test, for ever.
//!
//! A seed names its schedule only as long as the simulation draws the same numbers in the same order. So each has a seeded
//! bug beside it that brings the old fault back: `cargo xtask bugs` sees that the seed still meets it.

/// A seed, the bug that brings its fault back, and what that was.
pub const SEEDS: &[(u64, &str, &str)] = &[(
    603,
    "new-life-ends-trees",
    "an owner came back as a new life, and another host took that for the end of the tree of the old one",
)];
