//! The verbs of the proof: model, simulation, seeded bugs, crashes, power loss, benches.
//!
//! They are a program of their own, built for speed, and know their arguments themselves. Here they are only
//! started, and their exit code is ours. With `--bug NAME` the program is the one that has the bugs in it.

use crate::program::Outcome;
use crate::seeded::Build;

/// Runs a verb of the proof.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    let words = [&["run", "--release", "--quiet", "--package", "lastword-proof", "--", verb], arguments];
    Build::of(arguments)?.cargo(&words.concat())
}
