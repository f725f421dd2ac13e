//! `mutants`: changes the decisions, the fold and the owner's step one expression at a time, and expects a test
//! of core to fail each time.
//!
//! A change that no test can notice is listed in `.cargo/mutants.toml` with its reason, which also stands beside
//! the code. Everything else that is missed fails this verb.

use crate::program::{Outcome, cargo_with};

/// What is changed: all that turns facts and reports into an ending.
const FILES: &[&str] = &[
    "crates/core/src/decide/**/*.rs",
    "crates/core/src/effects.rs",
    "crates/core/src/job.rs",
    "crates/core/src/job/*.rs",
    "crates/core/src/limits.rs",
    "crates/core/src/owner.rs",
    "crates/core/src/session.rs",
];

/// Runs cargo-mutants; its own exit code is not zero when a mutant was missed or ran out of time.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let mut words = vec!["mutants", "--package", "lastword-core", "--no-shuffle", "--jobs", "2"];
    for file in FILES {
        words.extend(["--file", file]);
    }
    words.extend(arguments);
    cargo_with(&words, &[])
}
