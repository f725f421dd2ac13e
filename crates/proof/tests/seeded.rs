//! The suite can fail: with a rule of the store broken on purpose, the cases that guard it do.
//!
//! A seeded bug is on for the whole process. nextest gives each test a process; under another runner these
//! tests take turns, and no test without a bug lives in this file.

use std::sync::{Mutex, PoisonError};

use lastword_core::seeded::{self, Bug};
use lastword_proof::{backends, conformance};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the suite over memory with `bug` on and expects at least these cases to fail.
fn caught(bug: Option<Bug>, expected: &[&str]) -> Vec<&'static str> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    seeded::switch(bug);
    let broken = runtime.expect("a runtime starts").block_on(conformance::run_all(backends::memory));
    seeded::switch(None);
    let failed: Vec<_> = broken.iter().map(|broken| broken.case).collect();
    for case in expected {
        assert!(failed.contains(case), "{bug:?} got past `{case}`; caught by {failed:?}");
    }
    failed
}

#[test]
fn without_a_bug_every_case_holds() {
    assert_eq!(caught(None, &[]), Vec::<&str>::new());
}

#[test]
fn no_fence_is_caught() {
    caught(
        Some(Bug::NoFence),
        &[
            "c34_a_write_by_another_owner_is_refused",
            "c34_a_write_to_a_job_nobody_holds_is_refused",
            "c35_a_write_of_an_earlier_claim_is_refused",
            "c35_a_write_of_an_earlier_life_is_refused",
            "c35_a_takeover_fences_the_old_owner",
            "a_write_under_another_instance_is_refused",
        ],
    );
}

#[test]
fn no_version_check_is_caught() {
    caught(
        Some(Bug::NoVersionCheck),
        &[
            "c03_a_request_at_an_old_version_is_an_error_and_not_stored",
            "c25_of_many_writers_at_one_version_exactly_one_wins",
            "c06_a_request_at_a_version_before_the_claim_is_not_lost",
            "c42_a_refused_last_word_releases_nothing",
        ],
    );
}

#[test]
fn append_twice_is_caught() {
    caught(
        Some(Bug::AppendTwice),
        &[
            "c10_a_repeated_append_is_stored_once",
            "c10_a_repeat_after_others_wrote_is_a_success",
            "c10_a_repeat_after_a_takeover_is_a_success",
            "c10_a_repeated_last_word_is_a_success",
        ],
    );
}

#[test]
fn claim_twice_is_caught() {
    caught(
        Some(Bug::ClaimTwice),
        &["c33_concurrent_claimers_never_share_a_job", "c34_a_job_of_a_live_owner_is_not_taken_over"],
    );
}

#[test]
fn take_over_live_is_caught() {
    caught(
        Some(Bug::TakeOverLive),
        &["c34_a_job_of_a_live_owner_is_not_taken_over", "a_takeover_waits_for_its_margin"],
    );
}

#[test]
fn ended_not_absorbing_is_caught() {
    caught(
        Some(Bug::EndedNotAbsorbing),
        &[
            "c23_a_second_last_word_is_refused",
            "c24_a_request_after_the_end_changes_nothing",
            "c31_a_late_report_carries_nothing_else_in",
        ],
    );
}
