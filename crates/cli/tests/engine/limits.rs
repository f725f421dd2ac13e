//! Limits of commands: wall clock, stall, output; set before and while they run.

use std::time::{Duration, Instant};

use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Budget, Cause, Clock, Outcome};
use lastword_core::receipt::KeeperStop;
use lastword_core::spec::Spec;
use lastword_proc::Keeper;

use super::{Bench, end_of, leader_of, outcome, output_of, run};

fn limited(bench: &Bench, script: &str, limits: Limits) -> Spec {
    Spec { limits, ..bench.script(script) }
}

#[tokio::test(flavor = "multi_thread")]
async fn c53_the_wall_clock_limit_stops_a_job() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { wall_ms: Some(300), ..Limits::default() };
    let id = run(&engine, limited(&bench, "sleep 100", limits)).await;
    let leader = leader_of(&engine, id).await;
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Deadline));
    assert!(!leader.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn c66_the_wall_clock_limit_is_enforced_without_an_engine() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { wall_ms: Some(400), ..Limits::default() };
    let id = run(&engine, limited(&bench, "sleep 100", limits)).await;
    let leader = leader_of(&engine, id).await;
    drop(engine);
    crate::common::until("its keeper stopped it", || (!leader.is_alive()).then_some(()));
    let job = end_of(&bench.start(), id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Deadline));
    let end = job.attempts[0].end.as_ref().unwrap();
    assert_eq!(end.receipt.keeper_stop, Some(KeeperStop::Deadline));
}

#[tokio::test(flavor = "multi_thread")]
async fn c66_the_wall_clock_limit_is_enforced_if_the_keeper_has_no_deadline() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { wall_ms: Some(1_500), ..Limits::default() };
    let id = run(&engine, limited(&bench, "sleep 100", limits)).await;
    let leader = leader_of(&engine, id).await;
    let epoch = engine.job(id).await.unwrap().value.epoch;
    let mut keeper = Keeper::connect(&bench.jobs().join(id.to_string()).join("1"), epoch.0.into()).unwrap();
    crate::common::until("it has the deadline", || keeper.status().unwrap().deadline);
    keeper.deadline(None).unwrap();
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Deadline));
    assert!(!leader.is_alive());
    let end = job.attempts[0].end.as_ref().unwrap();
    assert_eq!(end.receipt.keeper_stop, None, "the engine stopped it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stall_limit_stops_a_silent_job_and_output_resets_it() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { stall_ms: Some(400), ..Limits::default() };
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done; sleep 100";
    let id = run(&engine, limited(&bench, script, limits)).await;
    leader_of(&engine, id).await;
    let begin = Instant::now();
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Stall));
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(1_000), "it wrote for 800 ms and then nothing: {took:?}");
    assert_eq!(output_of(&engine, id, "8").await.lines().count(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_limit_stops_a_job() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { output_bytes: Some(1 << 20), ..Limits::default() };
    let id = run(&engine, limited(&bench, "yes", limits)).await;
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::OverBudget(Budget::Output));
    assert_eq!(job.last_word().unwrap().cause, Cause::Limit(Limit::Output));
    assert!(job.attempts[0].end.as_ref().unwrap().receipt.output.seen > 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn c53_a_changed_limit_applies_at_once() {
    let bench = Bench::new();
    let engine = bench.start();
    // Raised, so that it does not stop at the first value.
    let limits = Limits { wall_ms: Some(2_000), ..Limits::default() };
    let raised = run(&engine, limited(&bench, "sleep 2.5; echo done", limits)).await;
    leader_of(&engine, raised).await;
    let job = engine.desk().set_limit(raised, "ann", Limit::Wall, 60_000).await.unwrap();
    assert_eq!(job.limits.wall_ms, Some(60_000), "the new value is recorded");
    // Lowered to values that are already exceeded.
    for (limit, value, script, expected) in [
        (Limit::Wall, 1, "sleep 100", Outcome::TimedOut(Clock::Deadline)),
        (Limit::Stall, 50, "sleep 100", Outcome::TimedOut(Clock::Stall)),
        (Limit::Output, 3, "echo hello; sleep 100", Outcome::OverBudget(Budget::Output)),
    ] {
        let id = run(&engine, bench.script(script)).await;
        leader_of(&engine, id).await;
        if limit == Limit::Output {
            output_of(&engine, id, "hello").await;
        }
        let begin = Instant::now();
        engine.desk().set_limit(id, "ann", limit, value).await.unwrap();
        let job = end_of(&engine, id).await;
        assert_eq!(outcome(&job).0, expected);
        assert!(begin.elapsed() < Duration::from_secs(15), "{limit:?} did not wait for a periodic check");
    }
    assert_eq!(outcome(&end_of(&engine, raised).await).0, Outcome::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn c53_limits_of_a_job_override_the_defaults() {
    let bench = Bench::new();
    let engine = bench.start_with(|options| options.limits.wall_ms = Some(300));
    let bound = run(&engine, bench.script("sleep 100")).await;
    let limits = Limits { wall_ms: Some(0), ..Limits::default() };
    let free = run(&engine, limited(&bench, "sleep 0.8", limits)).await;
    assert_eq!(outcome(&end_of(&engine, bound).await).0, Outcome::TimedOut(Clock::Deadline));
    assert_eq!(outcome(&end_of(&engine, free).await).0, Outcome::Completed);
}
