//! `fleet`: histories of a fleet with faults, and with one rule broken at a time.

use std::time::Instant;

use crate::program::{Failure, Outcome};
use crate::seeded;
use crate::trials;

/// A bug, and the fault that meets it: histories have no other then.
#[rustfmt::skip] // One row, one bug.
const BUGS: &[(&str, &str)] = &[
    ("stop-ends-lease", "worker stopped with its trees, started again"),
    ("guard-without-deadline", "worker and shim frozen past the lease"),
];

/// Histories for one bug, at most.
const HISTORIES: &str = "24";

/// Runs `fleet [--bugs] [...]`.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    match arguments {
        ["--bugs"] => bugs(),
        _ => trials::run("fleet", arguments),
    }
}

/// Switches on one bug after the other, each of which must be noticed.
fn bugs() -> Outcome {
    let known = seeded::all()?;
    let begin = Instant::now();
    let (mut caught, mut missed) = (0, Vec::new());
    for (bug, fault) in BUGS {
        let is_there = known.iter().any(|known| known.name == *bug);
        let words = ["--bug", bug, "--fault", fault, "--histories", HISTORIES];
        match is_there && trials::run("fleet", &words).is_ok() {
            true => caught += 1,
            false => missed.push(*bug),
        }
    }
    println!("\n{caught} of {} bugs caught, {:.0} s", BUGS.len(), begin.elapsed().as_secs_f64());
    if missed.is_empty() { Ok(()) } else { Err(Failure::new(format!("not caught: {}", missed.join(", ")))) }
}
