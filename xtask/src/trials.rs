//! The verbs that put the keeper on trial with real processes.
//!
//! They are a program of their own beside the executable that ships: both are built, then it is started, and its exit
//! code is ours.

use crate::program::Outcome;
use crate::seeded::Build;

/// Runs a verb of the trials, with everything built for speed; with `--dev`, as it is built for tests.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    start(verb, arguments, &[])
}

/// Runs a verb that has the proof beside it: a long history is made there.
pub(crate) fn run_with_proof(verb: &str, arguments: &[&str]) -> Outcome {
    start(verb, arguments, &["lastword-proof"])
}

fn start(verb: &str, arguments: &[&str], beside: &[&str]) -> Outcome {
    let is_dev = arguments.contains(&"--dev");
    let profile: &[&str] = if is_dev { &[] } else { &["--release"] };
    let build = Build::of(arguments)?;
    // The executable that ships by itself, as it ships. The trials with their adversary: to run one program of a package builds only
    // that one.
    for package in ["lastword", "lastword-trials"].iter().chain(beside) {
        build.cargo(&[&["build", "--quiet", "--package", package], profile].concat())?;
    }
    let run = [
        &["run", "--quiet"],
        profile,
        &["--package", "lastword-trials", "--bin", "lastword-trials", "--", verb],
    ];
    let arguments: Vec<&str> = arguments.iter().copied().filter(|word| *word != "--dev").collect();
    build.cargo(&[&run.concat()[..], &arguments].concat())
}
