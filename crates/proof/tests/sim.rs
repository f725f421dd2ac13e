//! The simulation as a test: clean schedules, the same ones again, and seeds that once failed. `cargo xtask bugs` shows that it finds bugs.

use lastword_proof::schedules::{Outcome, many};
use lastword_proof::sim::regressions::SEEDS;
use lastword_proof::sim::{Fault, SIMULATION, run};

/// Schedules of one test. `cargo xtask sim` runs a million.
const SCHEDULES: u64 = 2_000;

fn schedules_from(seed: u64) -> Outcome {
    many(&SIMULATION, SCHEDULES, seed, 2)
}

#[test]
fn c23_c31_c32_c46_c76_hold_in_every_schedule_and_a_seed_decides_everything() {
    let first = schedules_from(1);
    assert_eq!(first.violation, None);
    assert_eq!(first.schedules, SCHEDULES);
    assert!(first.faults.1 >= 3, "a schedule had {} faults", first.faults.1);
    let second = schedules_from(1);
    assert_eq!(first.hash, second.hash, "the same seeds gave another trace");
    assert_ne!(first.hash, schedules_from(2).hash, "the trace hash tells schedules apart");
}

#[test]
fn every_seed_that_once_failed_is_clean() {
    for (seed, _, what) in SEEDS {
        assert_eq!(run(*seed, false).violation, None, "seed {seed} broke once: {what}");
    }
}

#[test]
fn a_readable_trace_does_not_change_the_schedule() {
    let (silent, told) = (run(7, false), run(7, true));
    assert_eq!((silent.hash, silent.steps), (told.hash, told.steps));
    assert!(silent.lines.is_empty() && told.lines.len() > 20);
    assert!(told.lines.iter().any(|line| line.contains("LastWord")));
    assert!(Fault::ALL.iter().any(|fault| told.lines.iter().any(|line| line.contains(fault.name()))));
}
