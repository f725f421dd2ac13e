//! `bugs`: switches each seeded bug of the proof on, and fails if no checker notices.

use std::time::Instant;

use crate::program::{Failure, Outcome};
use crate::seeded::{self, Build};
use crate::{proof, trials};

/// Bugs that the model of a fleet must notice, without another checker. Those of the trials break the rule in real processes and in the model.
const OF_A_FLEET: &[&str] = &[
    "ended-without-compare",
    "guard-without-deadline",
    "host-is-machine",
    "late-launch",
    "lease-from-reply",
    "lost-life-renewed",
    "no-margin",
    "pause-cut-short",
];

/// Runs `bugs [NAME]`: first with none of them on, when nothing may be noticed.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let all = seeded::all()?;
    let is_of_a_fleet = |name: &str| OF_A_FLEET.contains(&name);
    let bugs = all.iter().filter(|bug| bug.is_of("crates/proof/") || is_of_a_fleet(&bug.name));
    let chosen: Vec<_> = match arguments {
        [] => bugs.collect(),
        [name] => bugs.filter(|bug| bug.name == *name).collect(),
        _ => return Err(Failure::new("usage: cargo xtask bugs [NAME]")),
    };
    if chosen.is_empty() {
        return Err(Failure::new("there is no bug of that name that the proof must notice"));
    }
    seeded::update()?;
    proof::build(&Build::Seeded(None))?;
    let begin = Instant::now();
    let check = |name: Option<&str>, words: &[&str]| {
        proof::start(&Build::Seeded(name.map(str::to_owned)), &[&["bugs"], words].concat())
    };
    check(None, &[])?;
    let mut unfound = Vec::new();
    for bug in &chosen {
        let only: &[&str] = match bug {
            bug if is_of_a_fleet(&bug.name) => &["--fleet"],
            bug if bug.is_in("crates/engine/") => &["--engine"],
            _ => &[],
        };
        if check(Some(&bug.name), &[&[bug.name.as_str()], only].concat()).is_err() {
            unfound.push(bug.name.as_str());
        }
    }
    println!("\n{} bugs, {} not found, {:.0} s", chosen.len(), unfound.len(), begin.elapsed().as_secs_f64());
    if unfound.is_empty() { Ok(()) } else { Err(Failure::new(format!("not found: {}", unfound.join(", ")))) }
}

/// Builds every checker that has bugs from the copy; the fuzzer is built by its own verb.
pub(crate) fn build() -> Outcome {
    seeded::update()?;
    let copy = Build::Seeded(None);
    trials::build(&copy, &[])?;
    proof::build(&copy)
}
