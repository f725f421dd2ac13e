//! Limits of commands: wall clock, stall, output; set before and while they run.

use lastword_core::Job;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Budget, Cause, Clock, Outcome};
use lastword_core::receipt::KeeperStop;
use lastword_core::spec::Spec;
use lastword_proc::{Keeper, clock};

use super::{Bench, HOUR_MS, end_of, first_leader_of, leader_of, outcome, output_of, run};
use crate::common::until;

fn limited(bench: &Bench, script: &str, limits: Limits) -> Spec {
    Spec { limits, ..bench.script(script) }
}

/// Connects to the keeper of a job on behalf of its owner.
fn keeper_of(bench: &Bench, job: &Job) -> Keeper {
    Keeper::connect(&bench.jobs().join(job.id.to_string()).join("1"), job.epoch.0.into()).unwrap()
}

/// Returns when the tree of a job was started, by the awake clock.
fn launched(job: &Job) -> u64 {
    job.attempts[0].launched.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn c53_the_wall_clock_limit_stops_a_job() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { wall_ms: Some(300), ..Limits::default() };
    let id = run(&engine, limited(&bench, "sleep 100", limits)).await;
    let leader = first_leader_of(&engine, id).await;
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Deadline));
    assert!(!leader.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn c66_the_wall_clock_limit_is_enforced_without_an_engine() {
    let bench = Bench::new();
    let engine = bench.start();
    let limits = Limits { wall_ms: Some(HOUR_MS), ..Limits::default() };
    let id = run(&engine, limited(&bench, "sleep 100", limits)).await;
    let leader = leader_of(&engine, id).await;
    let job = engine.job(id).await.unwrap().value;
    let mut keeper = keeper_of(&bench, &job);
    let deadline = Some(launched(&job) + HOUR_MS);
    until("it has the deadline", || (keeper.status().unwrap().deadline == deadline).then_some(()));
    drop(engine);
    // The hour ends only now, when no engine can be faster than the keeper.
    keeper.deadline(Some(clock::awake_ms())).unwrap();
    until("its keeper stopped it", || (!leader.is_alive()).then_some(()));
    let job = end_of(&bench.start(), id).await;
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Deadline));
    let end = job.attempts[0].end.as_ref().unwrap();
    assert_eq!(end.receipt.keeper_stop, Some(KeeperStop::Deadline));
}

#[tokio::test(flavor = "multi_thread")]
async fn c66_the_wall_clock_limit_is_enforced_if_the_keeper_has_no_deadline() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("sleep 100")).await;
    let leader = leader_of(&engine, id).await;
    let job = engine.job(id).await.unwrap().value;
    let mut keeper = keeper_of(&bench, &job);
    // Set last: the keeper must get its deadline, and lose it, before the limit is reached.
    let wall_ms = clock::awake_ms() - launched(&job) + 6_000;
    engine.desk().set_limit(id, "ann", Limit::Wall, wall_ms).await.unwrap();
    until("it has the deadline", || keeper.status().unwrap().deadline);
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
    let limits = Limits { stall_ms: Some(3_000), ..Limits::default() };
    // It writes for longer than the limit, with pauses that are much shorter than the limit.
    let script = "i=0; while [ $i -lt 35 ]; do i=$((i + 1)); echo $i; sleep 0.1; done; sleep 100";
    let id = run(&engine, limited(&bench, script, limits)).await;
    let job = end_of(&engine, id).await;
    let took_ms = clock::awake_ms() - launched(&job);
    assert_eq!(outcome(&job).0, Outcome::TimedOut(Clock::Stall));
    assert_eq!(output_of(&engine, id, "35").await.lines().count(), 35);
    assert!(took_ms > 6_300, "it wrote for 3.4 s, and nothing for 3 s: {took_ms} ms");
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
    // No periodic check finds what changed.
    let engine = bench.start_without_checks();
    // Raised, so that it does not stop at the first value.
    let limits = Limits { wall_ms: Some(6_000), ..Limits::default() };
    let raised = run(&engine, limited(&bench, "until test -e go; do sleep 0.01; done", limits)).await;
    leader_of(&engine, raised).await;
    let job = engine.desk().set_limit(raised, "ann", Limit::Wall, HOUR_MS).await.unwrap();
    assert_eq!(job.limits.wall_ms, Some(HOUR_MS), "the new value is recorded");
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
        engine.desk().set_limit(id, "ann", limit, value).await.unwrap();
        assert_eq!(outcome(&end_of(&engine, id).await).0, expected);
    }
    let passed = launched(&job) + 6_500;
    until("its first limit has passed", || (clock::awake_ms() > passed).then_some(()));
    std::fs::write(bench.cwd().join("go"), "").unwrap();
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
