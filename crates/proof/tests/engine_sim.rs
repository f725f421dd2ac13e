//! The simulation of the engine as a test: clean schedules, the same ones again, and two hosts on one journal. `cargo xtask bugs` shows that it
//! finds bugs.

use lastword_proof::engine_sim::{SIMULATION, run};
use lastword_proof::schedules::many;

/// Schedules of one test. `cargo xtask sim --engine` runs as many as it is told.
const SCHEDULES: u64 = 150;

#[test]
fn every_schedule_is_clean_and_a_seed_decides_everything() {
    let first = many(&SIMULATION, SCHEDULES, 1, 2);
    assert_eq!(first.violation, None);
    assert_eq!(first.schedules, SCHEDULES);
    assert!(first.faults.1 >= 2, "a schedule had {} faults", first.faults.1);
    assert_eq!(first.hash, many(&SIMULATION, SCHEDULES, 1, 1).hash, "the same seeds gave another trace");
}

/// A job's owner dies while its tree lives on, and the other host has an engine that looks for jobs without an owner.
#[test]
fn with_two_hosts_on_one_journal_an_owner_dies_while_its_tree_lives() {
    let found = (1..400).map(|seed| run(seed, true).lines).find(|lines| {
        let at = |what: &str| lines.iter().position(|line| line.contains(what));
        let (Some(lives), Some(other)) = (at("lives on h0"), at("the engine of h1 is ready")) else {
            return false;
        };
        let dies = lines.iter().skip(lives).position(|line| line.contains("the engine of h0 starts"));
        let ended =
            lines.iter().skip(lives).position(|line| line.contains("is empty") || line.contains("ended it"));
        other < lives && dies.zip(ended).is_some_and(|(dies, ended)| dies < ended)
    });
    assert!(found.is_some(), "no schedule with two hosts in which an owner dies before its tree");
}
