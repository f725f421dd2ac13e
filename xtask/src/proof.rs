//! The verbs of the proof: model, simulation, seeded bugs, crashes, power loss, benches.
//!
//! They are a program of their own, built for speed, and know their arguments themselves. Here they are only
//! started, and their exit code is ours. With `--bug NAME` the program is the one that has the bugs in it.

use crate::program::Outcome;
use crate::seeded::Build;

/// Runs a verb of the proof.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    let from = Build::of(arguments)?;
    build(&from)?;
    start(&from, &[&[verb], arguments].concat())
}

/// Builds the program. Naming `lastword`, which is not built, gives both the same features of dependencies, so most of these compile once.
pub(crate) fn build(from: &Build) -> Outcome {
    from.cargo(&[
        "build",
        "--release",
        "--quiet",
        "--package=lastword",
        "--package=lastword-proof",
        "--bin=lastword-proof",
    ])
}

/// Starts the program, which has been built.
pub(crate) fn start(from: &Build, words: &[&str]) -> Outcome {
    from.start("release/lastword-proof", words)
}
