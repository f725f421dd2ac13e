//! The verbs of the proof: model, simulation, seeded bugs, crashes, power loss, benches.
//!
//! They are a program of their own, built for speed, and know their arguments themselves. Here they are only
//! started, and their exit code is ours.

use crate::program::{Outcome, cargo_with};

/// Runs a verb of the proof.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    let words = [&["run", "--release", "--quiet", "--package", "lastword-proof", "--", verb], arguments];
    cargo_with(&words.concat(), &[])
}
