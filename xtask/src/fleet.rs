//! `fleet`: histories of a fleet with faults, and with one rule broken at a time.

use std::time::Instant;

use crate::program::{Failure, Outcome};
use crate::seeded;
use crate::trials;

/// Which histories meet a bug: those with one fault, or those of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Fault(&'static str),
    Script(&'static str),
}

/// A bug, and what meets it.
#[rustfmt::skip] // One row, one bug.
const BUGS: &[(&str, Aim)] = &[
    ("id-without-instance", Aim::Script("claims lost by a failover")),
    ("lease-from-reply", Aim::Script("renewal answered late")),
    ("no-margin", Aim::Script("keeper late by less than the margin")),
    ("stop-ends-lease", Aim::Fault("worker stopped with its trees, started again")),
    ("stored-end", Aim::Fault("clock of the database an hour off")),
    ("no-pause-after-instance", Aim::Script("claims lost by a failover")),
    ("snapshot-not-noticed", Aim::Script("claims lost by a snapshot")),
    ("host-is-machine", Aim::Fault("host cloned")),
    ("late-launch-unleased", Aim::Script("claim answered late")),
    ("guard-without-deadline", Aim::Fault("worker and shim frozen past the lease")),
];

/// Histories for one bug, at most; and as many with the same faults and no bug, of which none may be wrong.
const HISTORIES: &str = "24";
const SOUND: &str = "3";

impl Aim {
    fn words(self) -> [&'static str; 2] {
        match self {
            Aim::Fault(name) => ["--fault", name],
            Aim::Script(name) => ["--script", name],
        }
    }
}

/// Runs `fleet [--bugs] [...]`.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    match arguments {
        ["--bugs"] => bugs(),
        _ => trials::run("fleet", arguments),
    }
}

/// Switches on one bug after the other, each of which must be noticed, by histories that are sound without it.
fn bugs() -> Outcome {
    let known = seeded::all()?;
    let begin = Instant::now();
    let (mut caught, mut wrong) = (0, Vec::new());
    let mut sound: Vec<Aim> = Vec::new();
    for (bug, aim) in BUGS {
        if !sound.contains(aim) {
            sound.push(*aim);
            let words = [&aim.words()[..], &["--histories", SOUND, "--at-once", SOUND, "--dev"]].concat();
            if trials::run("fleet", &words).is_err() {
                wrong.push(format!("wrong without a bug: {aim:?}"));
            }
        }
        let is_there = known.iter().any(|known| known.name == *bug);
        let words =
            [&aim.words()[..], &["--bug", bug, "--histories", HISTORIES, "--at-once", SOUND]].concat();
        match is_there && trials::run("fleet", &words).is_ok() {
            true => caught += 1,
            false => wrong.push(format!("not caught: {bug}")),
        }
    }
    println!("\n{caught} of {} bugs caught, {:.0} s", BUGS.len(), begin.elapsed().as_secs_f64());
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("; "))) }
}
