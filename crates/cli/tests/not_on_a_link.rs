//! The tests of `e2e` and `survival` that are not run on a link, each with its reason. `cargo xtask e2e --store link` runs all others.

/// A test, or with `::` at its end a module, of a test binary; and why it is not run on a link.
pub(crate) const NOT_ON_A_LINK: &[(&str, &str, &str)] = &[];
