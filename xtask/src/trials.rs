//! The verbs that put the keeper on trial with real processes.
//!
//! They are a program of their own beside the executable that ships: both are built, then it is started, and its exit
//! code is ours.

use crate::program::{Outcome, cargo, cargo_with};

/// Runs a verb of the trials.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    // By itself: built together with the trials, it would have their seeded bugs compiled in.
    cargo("build --release --quiet --package lastword")?;
    // With its adversary: to run one program of a package builds only that one.
    cargo("build --release --quiet --package lastword-trials")?;
    let run = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "lastword-trials",
        "--bin",
        "lastword-trials",
        "--",
        verb,
    ];
    cargo_with(&[&run, arguments].concat(), &[])
}
