//! Shutdown and start: what is kept or cancelled, and what an earlier boot or engine left.

use std::sync::Arc;

use lastword_core::decide::claim::Claimant;
use lastword_core::job::Phase;
use lastword_core::life::Place;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::spec::{RetryPolicy, Spec};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Awake, HostId, Job, JobId, Now, OwnerId, Timestamp};
use lastword_engine::{Error, Group, Jobs};
use lastword_proc::{boot_id, clock};
use lastword_store::{Claim, Journal as _, Renew, Source};

use super::trouble::reported;
use super::{Bench, end_of, leader, leader_of, outcome, run, until};

#[tokio::test(flavor = "multi_thread")]
async fn trees_keep_running_without_an_engine_and_are_adopted_by_the_next() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("sleep 100")).await;
    let tree = leader_of(&engine, id).await;
    engine.shut_down(Jobs::Keep).await.unwrap();
    let refused =
        engine.submit(engine.desk().new_id().unwrap(), bench.script("true"), super::env(), "ann").await;
    assert!(matches!(refused, Err(Error::GoingDown)));
    assert!(tree.is_alive());
    drop(engine);
    let engine = bench.start();
    engine.ready().await;
    assert_eq!(leader(&engine.job(id).await.unwrap().value).pid, tree.pid);
    engine.shut_down(Jobs::Cancel).await.unwrap();
    let job = engine.job(id).await.unwrap().value;
    assert_eq!(job.last_word().unwrap().cause, Cause::Shutdown);
    assert!(!tree.is_alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn c39_a_shutdown_with_cancel_gives_every_job_its_last_word() {
    let bench = Bench::new();
    let engine = bench.start();
    engine.desk().set_group(Group::new("default", Some(2))).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(run(&engine, bench.script("trap '' TERM; sleep 100 & wait; wait")).await);
    }
    let trees = [leader_of(&engine, jobs[0]).await, leader_of(&engine, jobs[1]).await];
    engine.shut_down(Jobs::Cancel).await.unwrap();
    for id in &jobs {
        let job = engine.job(*id).await.unwrap().value;
        assert!(matches!(outcome(&job).0, Outcome::Cancelled(_)), "{:?}", job.phase);
        assert_eq!(job.last_word().unwrap().cause, Cause::Shutdown);
    }
    assert!(trees.iter().all(|tree| !tree.is_alive()));
}

// On one thread, so that the engine does not get to run before the second call.
#[tokio::test]
async fn a_shutdown_can_still_be_changed_to_cancel_jobs() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("sleep 100")).await;
    let tree = leader_of(&engine, id).await;
    {
        // Told to keep the jobs, and told again before that was done.
        let mut keep = std::pin::pin!(engine.shut_down(Jobs::Keep));
        let begun = std::future::poll_fn(|context| std::task::Poll::Ready(keep.as_mut().poll(context)));
        assert!(begun.await.is_pending(), "it takes a moment");
    }
    engine.shut_down(Jobs::Cancel).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().value.last_word().unwrap().cause, Cause::Shutdown);
    assert!(!tree.is_alive());
    assert!(matches!(engine.shut_down(Jobs::Cancel).await, Err(Error::GoingDown)), "it is down");
}

/// Leaves an intent in the log of a job, as if its owner had died before carrying it out.
async fn intend(bench: &Bench, id: JobId, boot: &str) {
    let (owner, host) = (OwnerId(Arc::from("daemon")), HostId(Arc::from("here")));
    let now = Now { wall: Timestamp(clock::wall_ms()), awake: Awake(clock::awake_ms()) };
    let renew = Renew {
        owner: owner.clone(),
        place: Place::new("here", "boot"),
        incarnation: None,
        lease_ms: 60_000,
    };
    let incarnation = bench.journal.renew(renew).await.unwrap().incarnation;
    let by = Claimant { owner, incarnation, host: host.clone(), boot: None };
    let from = Source::Ready { group: "default".to_owned(), slots: None };
    let claim = Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now: now.wall };
    let claimed = bench.journal.claim(claim).await.unwrap().pop().expect("it waits");
    assert_eq!(claimed.job, id);
    let job = Job::fold(id, &claimed.events).unwrap();
    let mut dead = Owner::new(job, claimed.fence, host, boot.into(), now);
    let [Output::Append(intent)] = &dead.step(Input::Tick, now)[..] else { panic!("it intends to launch") };
    bench.journal.append(Append::clone(intent)).await.unwrap();
}

async fn submit_paused(bench: &Bench, spec: Spec) -> JobId {
    let engine = bench.start();
    let paused = |paused| Group { paused, ..Group::new("default", Some(1)) };
    engine.desk().set_group(paused(true)).await.unwrap();
    let id = run(&engine, spec).await;
    engine.shut_down(Jobs::Keep).await.unwrap();
    engine.desk().set_group(paused(false)).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn c39_a_pending_intent_is_carried_out_once() {
    let bench = Bench::new();
    let id = submit_paused(&bench, bench.script("echo ran >> ran")).await;
    intend(&bench, id, boot_id()).await;
    let engine = bench.start();
    let job = end_of(&engine, id).await;
    assert_eq!((outcome(&job).0, job.attempts.len()), (Outcome::Completed, 2));
    assert_eq!(std::fs::read_to_string(bench.cwd().join("ran")).unwrap(), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_an_earlier_boot_is_lost_or_retried_by_policy() {
    for (when_lost, expected) in [(false, Outcome::Lost), (true, Outcome::Completed)] {
        let bench = Bench::new();
        let retry = RetryPolicy { attempts_max: 2, backoff_ms: 1, when_lost, ..RetryPolicy::default() };
        let id = submit_paused(&bench, Spec { retry, ..bench.script("true") }).await;
        intend(&bench, id, "another-boot").await;
        let engine = bench.start();
        let job = end_of(&engine, id).await;
        assert_eq!(outcome(&job).0, expected);
        let first = job.attempts[0].end.as_ref().unwrap();
        assert_eq!(first.receipt.proof, lastword_core::receipt::Proof::BootChanged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_failure_is_reported() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("sleep 100")).await;
    let tree = leader_of(&engine, id).await;
    // With its folder moved and its keeper killed, its fate is unknown.
    let folder = bench.jobs().join(id.to_string());
    let aside = bench.cwd().join("aside");
    let shim = lastword_proc::ancestors(tree.pid).unwrap()[1].0;
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    let shim = lastword_proc::Identity::of(shim).unwrap();
    assert!(shim.signal(rustix::process::Signal::KILL).unwrap());
    reported(&engine, |trouble| trouble.job == Some(id)).await;
    // With the folder back, the engine finds out by itself.
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    let job = until(&engine, id, |job| matches!(job.phase, Phase::Ended(_))).await;
    assert!(!tree.is_alive());
    assert!(job.is_ended());
    assert_eq!(engine.desk().troubles(), []);
}
