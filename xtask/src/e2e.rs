//! `e2e`: the product as a user drives it, and as it survives what happens around it.
//!
//! These are tests like others, and run with all of them in `ci`; here they run alone. Snapshots are compared, never written.

use crate::program::{Outcome, cargo_with};

/// Runs the tests that drive the real executable; arguments name those to run.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let words = ["test", "--quiet", "--package", "lastword", "--test", "e2e", "--test", "survival", "--"];
    cargo_with(&[&words, arguments].concat(), &[("INSTA_UPDATE", "no")])
}
