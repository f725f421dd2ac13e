//! The simulation as a test: clean schedules, the same ones again, seeds that once failed, and bugs that must be found.

use lastword_core::seeded::Bug;
use lastword_proof::sim::regressions::SEEDS;
use lastword_proof::sim::{Fault, find, run};

/// Schedules of one test. `cargo xtask sim` runs a million.
const SCHEDULES: u64 = 2_000;

/// Schedules in which a seeded bug must show. The rarest shows within a quarter of it.
const HUNT: u64 = 20_000;

#[test]
fn c23_c31_c32_c46_c76_hold_in_every_schedule_and_a_seed_decides_everything() {
    let first = find(None, SCHEDULES, 1);
    assert_eq!(first.violation, None);
    assert_eq!(first.schedules, SCHEDULES);
    assert!(first.faults.1 >= 3, "a schedule had {} faults", first.faults.1);
    let second = find(None, SCHEDULES, 1);
    assert_eq!(first.hash, second.hash, "the same seeds gave another trace");
    assert_ne!(first.hash, find(None, SCHEDULES, 2).hash, "the trace hash tells schedules apart");
}

#[test]
fn every_seed_that_once_failed_is_clean() {
    for (seed, bug, what) in SEEDS {
        assert_eq!(run(*seed, false).violation, None, "seed {seed} broke once: {what}");
        let again = find(Some(*bug), 1, *seed);
        assert!(again.violation.is_some(), "seed {seed} does not meet {} any more: find another", bug.name());
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

/// Makes a test for each bug that must be found. Nextest runs each in a process of its own, so one bug is on at a time.
macro_rules! found {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            let outcome = find(Some(Bug::$bug), HUNT, 1);
            assert!(outcome.violation.is_some(), "{} was not found in {HUNT} schedules", Bug::$bug.name());
        })*
    };
}

found! {
    c35_a_missing_fence_is_found: NoFence,
    c44_an_early_acknowledgement_is_found: AckBeforeSync,
    c43_a_torn_record_taken_for_whole_is_found: TornAccepted,
    a_new_life_that_ends_trees_is_found: NewLifeEndsTrees,
    c06_a_retry_after_a_cancel_is_found: RetryAfterCancel,
    a_last_word_before_the_tree_is_empty_is_found: LastWordBeforeEmpty,
}
