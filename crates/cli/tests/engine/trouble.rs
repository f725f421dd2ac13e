//! Problems that are reported and recovered from: an unavailable journal, lost answers, damage.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::limits::Limits;
use lastword_core::outcome::{Clock, Outcome};
use lastword_core::spec::Spec;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Fact, Seq};
use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, Trouble};
use lastword_proc::{Identity, Keeper};
use lastword_store::{Claim, Journal as _, Renew, Source, Store};
use rustix::process::Signal;

use super::faulty::Faulty;
use super::{Bench, end_of, first_leader_of, leader_of, outcome, run, until, wish};
use crate::common::PATIENCE;

/// Waits until a problem is reported.
pub(crate) async fn reported<J: Store>(engine: &Engine<J>, is_it: impl Fn(&Trouble) -> bool) -> Trouble {
    let begin = Instant::now();
    loop {
        if let Some(trouble) = engine.desk().troubles().into_iter().find(&is_it) {
            return trouble;
        }
        assert!(begin.elapsed() < PATIENCE, "not reported: {:?}", engine.desk().troubles());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c50_limits_are_enforced_and_endings_kept_while_the_journal_is_unavailable() {
    let bench = Bench::new();
    let journal = Faulty::new(bench.journal.clone());
    let engine = bench.start_on(journal.clone(), |_| {});
    let limits = Limits { stall_ms: Some(400), ..Limits::default() };
    let silent = run(&engine, Spec { limits, ..bench.script("sleep 100") }).await;
    let done = run(&engine, bench.script("until test -e go; do sleep 0.01; done; exit 4")).await;
    let (first, second) = (first_leader_of(&engine, silent).await, leader_of(&engine, done).await);
    journal.away.store(true, Ordering::Relaxed);
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    crate::common::until("one has ended, and one was stopped", || {
        (!first.is_alive() && !second.is_alive()).then_some(())
    });
    reported(&engine, |trouble| trouble.what.contains("told to be away")).await;
    assert!(engine.job(done).await.is_err(), "its state is unknown");
    journal.away.store(false, Ordering::Relaxed);
    assert_eq!(outcome(&end_of(&engine, silent).await).0, Outcome::TimedOut(Clock::Stall));
    assert_eq!(outcome(&end_of(&engine, done).await).0, Outcome::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_even_if_the_answer_to_its_claim_is_lost() {
    let bench = Bench::new();
    let journal = Faulty::new(bench.journal.clone());
    let engine = bench.start_on(journal.clone(), |_| {});
    engine.ready().await;
    journal.lose_claim.store(true, Ordering::Relaxed);
    let id = run(&engine, bench.script("echo once >> ran")).await;
    let job = end_of(&engine, id).await;
    assert_eq!((outcome(&job).0, job.epoch.0), (Outcome::Completed, 1), "under the same claim");
    assert_eq!(std::fs::read_to_string(bench.cwd().join("ran")).unwrap(), "once\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn c43_an_unreadable_log_is_reported_and_left_alone() {
    let bench = Bench::new();
    let journal = Faulty::new(bench.journal.clone());
    let engine = bench.start_on(journal.clone(), |_| {});
    engine.ready().await;
    journal.damage_claim.store(true, Ordering::Relaxed);
    let id = run(&engine, bench.script("echo ran >> ran")).await;
    let trouble = reported(&engine, |trouble| trouble.job == Some(id)).await;
    assert!(trouble.what.contains("cannot be read"), "{trouble:?}");
    let other = run(&engine, bench.script("true")).await;
    assert_eq!(outcome(&end_of(&engine, other).await).0, Outcome::Completed, "other jobs run");
    assert!(!bench.cwd().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn c35_a_late_report_is_recorded_and_changes_nothing() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("until test -e go; do sleep 0.01; done; exit 6")).await;
    let leader = leader_of(&engine, id).await;
    // Another owner claims the job. The engine here is not notified, and finds out when it reports.
    let now = engine.desk().now().wall;
    let owner = OwnerId("daemon".into());
    let renew = Renew {
        owner: owner.clone(),
        place: Place::new("here", "boot"),
        incarnation: None,
        lease_ms: 60_000,
    };
    let incarnation = bench.journal.renew(renew).await.unwrap().incarnation;
    let by = Claimant { owner, incarnation, host: HostId("here".into()), boot: None };
    let claim = Claim { by, from: Source::Expired, labels: WorkerLabels::default(), at_most: 1, now };
    assert_eq!(bench.journal.claim(claim).await.unwrap().len(), 1);
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    crate::common::until("it has ended", || (!leader.is_alive()).then_some(()));
    let job = until(&engine, id, |job| job.late > 0).await;
    assert!(!job.is_ended(), "the other owner decides");
    let events = engine.events(id, Seq(0)).await.unwrap();
    let late = events.iter().find_map(|event| match &event.fact {
        Fact::LateReported(late) => Some(late.what.clone()),
        _ => None,
    });
    assert!(late.is_some_and(|what| what.contains("Code(6)")), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_keepers_do_not_delay_other_jobs() {
    let bench = Bench::new();
    let engine = bench.start();
    let mut frozen = Vec::new();
    // More than there are threads for launches and checks.
    for _ in 0..12 {
        let id = run(&engine, bench.script("sleep 100")).await;
        let leader = leader_of(&engine, id).await;
        let shim = Identity::of(lastword_proc::ancestors(leader.pid).unwrap()[1].0).expect("the shim lives");
        assert!(shim.signal(Signal::STOP).unwrap());
        engine.desk().cancel(id, &wish(true)).await.unwrap();
        frozen.push((id, shim));
    }
    let stopping = engine.job(frozen[0].0).await.unwrap().value;
    let dir = bench.jobs().join(stopping.id.to_string()).join("1");
    let patient = std::thread::spawn(move || Keeper::connect(&dir, 0).and_then(|mut keeper| keeper.status()));
    assert_eq!(engine.alive(&stopping).await, None, "no keeper answers");
    assert!(!patient.is_finished(), "a read does not wait for a keeper as long as other questions do");
    // It starts and ends while all of them are still stopped.
    let id = run(&engine, bench.script("sleep 100")).await;
    leader_of(&engine, id).await;
    engine.desk().cancel(id, &wish(true)).await.unwrap();
    end_of(&engine, id).await;
    for (id, shim) in frozen {
        assert!(!engine.job(id).await.unwrap().value.is_ended(), "it has not ended, whatever was requested");
        assert!(shim.signal(Signal::CONT).unwrap());
        assert!(matches!(outcome(&end_of(&engine, id).await).0, Outcome::Cancelled(_)));
    }
}
