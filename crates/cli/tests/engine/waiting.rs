//! Jobs that wait: for a slot, for a group, for a time, for a retry, for each other.

use std::sync::Arc;

use lastword_core::decide::Refusal;
use lastword_core::job::{Phase, Waits};
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::spec::{Dependency, Needs, RetryPolicy, Spec};
use lastword_core::{Event, Fact, Job, JobId, Seq, Timestamp};
use lastword_engine::{Error, Group};
use lastword_proc::clock::wall_ms;
use lastword_store::Journal as _;

use super::faulty::{Faulty, Gate};
use super::{Bench, end_of, env, leader_of, outcome, run, until, wish};

fn group(name: &str, slots: u32, paused: bool) -> Group {
    Group { paused, ..Group::new(name, Some(slots)) }
}

fn waits_for_slot(job: &Job) -> bool {
    job.phase == Phase::Queued { waits: Waits::Slot }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_held_by_one_job_and_passed_on_by_priority() {
    let bench = Bench::new();
    let engine = bench.start();
    // A group that was not created explicitly has one slot.
    let spec = |script: &str, priority| Spec {
        group: "one".to_owned(),
        priority,
        ..bench.script(&format!("{script}; echo $LASTWORD_JOB_ID >> order"))
    };
    let first = run(&engine, spec("until test -e go; do sleep 0.01; done", 0)).await;
    leader_of(&engine, first).await;
    let low = run(&engine, spec("true", -5)).await;
    let high = run(&engine, spec("true", 5)).await;
    for id in [low, high] {
        assert!(waits_for_slot(&engine.job(id).await.unwrap().value), "the only slot is taken");
    }
    assert_eq!(engine.desk().groups().await.unwrap().len(), 2, "it was created beside the default group");
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    for id in [first, low, high] {
        assert_eq!(outcome(&end_of(&engine, id).await).0, Outcome::Completed);
    }
    let order = std::fs::read_to_string(bench.cwd().join("order")).unwrap();
    assert_eq!(order.lines().collect::<Vec<_>>(), [first, high, low].map(|id| id.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_starts_nothing_until_resumed() {
    let bench = Bench::new();
    let engine = bench.start();
    engine.desk().set_group(group("night", 4, true)).await.unwrap();
    let spec = || Spec { group: "night".to_owned(), ..bench.script("exit 3") };
    let id = run(&engine, spec()).await;
    // Once another job of the same engine has run, there was time to start this one.
    let other = run(&engine, bench.script("true")).await;
    end_of(&engine, other).await;
    assert!(waits_for_slot(&engine.job(id).await.unwrap().value));
    let refused = engine.desk().remove_group("night").await;
    assert!(matches!(refused, Err(Error::GroupStays(_))), "{refused:?}");
    engine.desk().set_group(group("night", 4, false)).await.unwrap();
    end_of(&engine, id).await;
    assert!(engine.desk().remove_group("night").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_retried_after_its_backoff() {
    let bench = Bench::new();
    // Nothing but the end of the backoff starts it again.
    let engine = bench.start_without_checks();
    let retry = RetryPolicy { attempts_max: 3, backoff_ms: 300, ..RetryPolicy::default() };
    let script = "echo x >> tries; test $(wc -l < tries) = 3";
    let id = run(&engine, Spec { retry, ..bench.script(script) }).await;
    let job = end_of(&engine, id).await;
    assert_eq!((outcome(&job).0, job.attempts.len()), (Outcome::Completed, 3));
    for pair in job.attempts.windows(2) {
        let (ended, started) = (pair[0].ended_at.unwrap(), pair[1].started_at.unwrap());
        let pause = started.0 - ended.0;
        let due = 300 * u64::from(pair[0].no.0);
        assert!(pause >= due, "due after {due} ms, begun after {pause} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_starts_on_time_unless_cancelled_before() {
    let bench = Bench::new();
    // Nothing but its moment starts it.
    let engine = bench.start_without_checks();
    let later = |ms| Timestamp(wall_ms() + ms);
    let spec = |moment| Spec {
        not_before: Some(moment),
        group: "night".to_owned(),
        ..bench.script("echo ran >> ran")
    };
    // While its group is paused, a job cannot start before it is cancelled. Its moment comes before that of the other.
    engine.desk().set_group(group("night", 4, true)).await.unwrap();
    let cancelled = run(&engine, spec(later(200))).await;
    let never = engine.desk().cancel(cancelled, &wish(false)).await.unwrap();
    assert_eq!(outcome(&never).0, Outcome::Cancelled(Begun::BeforeStart));
    engine.desk().set_group(group("night", 4, false)).await.unwrap();
    let moment = later(400);
    let id = run(&engine, spec(moment)).await;
    let job = end_of(&engine, id).await;
    let started = job.attempts[0].started_at.unwrap();
    assert!(started >= moment, "started at {started:?}, due at {moment:?}");
    assert_eq!(std::fs::read_to_string(bench.cwd().join("ran")).unwrap(), "ran\n");
}

fn after(job: JobId, on: Needs) -> Vec<Dependency> {
    vec![Dependency { job, on }]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_only_if_its_dependency_ended_as_required() {
    let bench = Bench::new();
    let engine = bench.start();
    let spec = |script: &str, after| Spec { after, ..bench.script(script) };
    let hold = "until test -e go; do sleep 0.01; done";
    let good = run(&engine, bench.script(hold)).await;
    let bad = run(&engine, bench.script(&format!("{hold}; exit 1"))).await;
    let needs = |id, on| run(&engine, spec("true", after(id, on)));
    let after_good = needs(good, Needs::Success).await;
    let after_bad = needs(bad, Needs::Success).await;
    let after_any = needs(bad, Needs::AnyEnd).await;
    let waiting = engine.job(after_good).await.unwrap().value;
    assert_eq!(waiting.phase, Phase::Queued { waits: Waits::Dependencies });
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    assert_eq!(outcome(&end_of(&engine, after_good).await).0, Outcome::Completed);
    assert_eq!(outcome(&end_of(&engine, after_any).await).0, Outcome::Completed);
    let never = end_of(&engine, after_bad).await;
    assert_eq!(never.last_word().unwrap().cause, Cause::Dependency);
    assert!(never.attempts.is_empty());
    // For jobs that have already ended, the decision is immediate.
    let too_late = needs(bad, Needs::Success).await;
    assert_eq!(end_of(&engine, too_late).await.last_word().unwrap().cause, Cause::Dependency);
    let in_time = needs(good, Needs::Success).await;
    assert_eq!(outcome(&end_of(&engine, in_time).await).0, Outcome::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stored_while_its_dependency_ends_is_started() {
    let bench = Bench::new();
    let faulty = Faulty::new(bench.journal.clone());
    let engine = bench.start_on(faulty.clone(), |_| {});
    let other = run(&engine, bench.script("until test -e go; do sleep 0.01; done")).await;
    leader_of(&engine, other).await;
    // Dependents are notified in the order of their ids: once the second was notified, so was the first. The second is only awaited until
    // then, because nothing can be claimed while a submit is held back.
    let mut ids = [engine.desk().new_id().unwrap(), engine.desk().new_id().unwrap()];
    ids.sort_unstable();
    let [stored_late, witness] = ids;
    let spec = Spec { after: after(other, Needs::Success), ..bench.script("true") };
    engine.submit(witness, spec.clone(), env(), "ann").await.unwrap();
    let gate = Arc::new(Gate::shut());
    *faulty.held_back.lock().unwrap() = Some((stored_late, Arc::clone(&gate)));
    let submitter = engine.clone();
    let submitted = tokio::spawn(async move { submitter.submit(stored_late, spec, env(), "ann").await });
    gate.reached.acquire().await.unwrap().forget();
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    until(&engine, witness, |job| job.unmet.is_empty()).await;
    *faulty.held_back.lock().unwrap() = None;
    gate.open.add_permits(1);
    submitted.await.unwrap().unwrap();
    // The submit itself tells it. A sweep would, too, but later.
    assert!(engine.job(stored_late).await.unwrap().value.unmet.is_empty());
    assert_eq!(outcome(&end_of(&engine, stored_late).await).0, Outcome::Completed);
}

/// The other job is live when the submission looks, and gone when it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn c86_a_job_stored_after_its_dependency_was_removed_says_so() {
    for (on, starts) in [(Needs::Success, false), (Needs::AnyEnd, true)] {
        let bench = Bench::new();
        let faulty = Faulty::new(bench.journal.clone());
        let engine = bench.start_on(faulty.clone(), |_| {});
        let other = run(&engine, bench.script("until test -e go; do sleep 0.01; done")).await;
        leader_of(&engine, other).await;
        let stored_late = engine.desk().new_id().unwrap();
        let spec = Spec { after: after(other, on), ..bench.script("true") };
        let gate = Arc::new(Gate::shut());
        *faulty.held_back.lock().unwrap() = Some((stored_late, Arc::clone(&gate)));
        let submitter = engine.clone();
        let submitted = tokio::spawn(async move { submitter.submit(stored_late, spec, env(), "ann").await });
        gate.reached.acquire().await.unwrap().forget();
        std::fs::write(bench.cwd().join("go"), "").unwrap();
        assert_eq!(outcome(&end_of(&engine, other).await).0, Outcome::Completed);
        engine.remove(other, false).await.unwrap();
        *faulty.held_back.lock().unwrap() = None;
        gate.open.add_permits(1);
        submitted.await.unwrap().unwrap();
        let job = end_of(&engine, stored_late).await;
        let word = job.last_word().unwrap();
        let expected = if starts { Cause::Finished } else { Cause::DependencyRemoved };
        assert_eq!((word.cause, job.attempts.is_empty()), (expected, !starts), "{word:?}");
        let removed =
            |event: &Event| matches!(&event.fact, Fact::DependencyRemoved(gone) if gone.job == other);
        let events = bench.journal.load(stored_late, Seq(0)).await.unwrap();
        assert!(events.iter().any(removed), "{events:?}");
    }
}

/// A job that another one waits for is removed once that one was told.
#[tokio::test(flavor = "multi_thread")]
async fn c86_a_removal_beside_submissions_takes_no_outcome_away() {
    let bench = Bench::new();
    let engine = bench.start();
    for _ in 0..20 {
        let other = run(&engine, bench.script("true")).await;
        let (submitter, spec) =
            (engine.clone(), Spec { after: after(other, Needs::Success), ..bench.script("true") });
        let submitted = tokio::spawn(async move {
            let id = submitter.desk().new_id().unwrap();
            submitter.submit(id, spec, env(), "ann").await
        });
        end_of(&engine, other).await;
        engine.remove(other, false).await.unwrap();
        match submitted.await.unwrap() {
            Ok(job) => {
                let word = end_of(&engine, job.id).await.last_word().cloned().unwrap();
                assert!(matches!(word.cause, Cause::Finished | Cause::DependencyRemoved), "{word:?}");
            }
            Err(error) => assert!(matches!(error, Error::Refused(Refusal::NotFound(_))), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_dependency_is_refused() {
    let bench = Bench::new();
    let engine = bench.start();
    let (id, unknown) = (engine.desk().new_id().unwrap(), engine.desk().new_id().unwrap());
    let spec = Spec { after: after(unknown, Needs::AnyEnd), ..bench.script("true") };
    let refused = engine.submit(id, spec, env(), "ann").await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotFound(job))) if job == unknown), "{refused:?}");
    assert!(matches!(engine.job(id).await, Err(Error::Refused(Refusal::NotFound(_)))));
    assert!(!bench.jobs().join(id.to_string()).exists(), "a refused job leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependent_job_is_started_by_the_next_engine_after_a_crash() {
    let bench = Bench::new();
    let engine = bench.start();
    let other = run(&engine, bench.script("until test -e go; do sleep 0.01; done")).await;
    let leader = leader_of(&engine, other).await;
    let id = run(&engine, Spec { after: after(other, Needs::Success), ..bench.script("true") }).await;
    until(&engine, id, |job| job.phase == Phase::Queued { waits: Waits::Dependencies }).await;
    drop(engine);
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    crate::common::until("the other one ended", || (!leader.is_alive()).then_some(()));
    let engine = bench.start();
    assert_eq!(outcome(&end_of(&engine, id).await).0, Outcome::Completed);
    assert_eq!(outcome(&end_of(&engine, other).await).0, Outcome::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_that_becomes_due_without_an_engine_is_started_by_the_next() {
    let bench = Bench::new();
    let engine = bench.start();
    engine.ready().await;
    let due = Timestamp(wall_ms() + 1_500);
    let id = run(&engine, Spec { not_before: Some(due), ..bench.script("true") }).await;
    drop(engine);
    // Nothing but its moment starts it, if that is still to come.
    let engine = bench.start_without_checks();
    engine.ready().await;
    let phase = engine.job(id).await.unwrap().value.phase;
    if wall_ms() < due.0 {
        assert!(matches!(phase, Phase::Queued { .. }), "it is not due yet: {phase:?}");
    }
    end_of(&engine, id).await;
}
