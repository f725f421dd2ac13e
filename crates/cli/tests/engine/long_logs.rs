//! Jobs with a long log: a request reads what is new of it, and what is remembered of it never counts against the journal.

use std::sync::atomic::Ordering;

use lastword_core::decide::Refusal;
use lastword_core::limits::Limit;
use lastword_core::{JobId, Seq};
use lastword_engine::{Engine, Error};
use lastword_store::Store;

use super::faulty::Faulty;
use super::{Bench, HOUR_MS, end_of, env, leader_of, run, wish};

/// Events of a log that is long.
const MANY: u64 = 150;

async fn change_limit<J: Store>(engine: &Engine<J>, id: JobId, times: u64) {
    for n in 1..=times {
        let job = engine.desk().set_limit(id, "ann", Limit::Wall, HOUR_MS + n).await.unwrap();
        assert_eq!(job.limits.get(Limit::Wall), Some(HOUR_MS + n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reads_what_is_new_of_a_long_log() {
    let bench = Bench::new();
    let journal = Faulty::new(bench.journal.clone());
    let engine = bench.start_on(journal.clone(), |_| {});
    let id = run(&engine, bench.script("sleep 100")).await;
    leader_of(&engine, id).await;
    change_limit(&engine, id, MANY).await;
    journal.loaded.store(0, Ordering::Relaxed);
    for n in 1..=20 {
        change_limit(&engine, id, n).await;
        assert_eq!(engine.job(id).await.unwrap().value, engine.desk().folded(id).await.unwrap().job);
    }
    let (requests, loaded) = (210 + 40, journal.loaded.load(Ordering::Relaxed));
    // The owner reads each event once, and a request the newest that it knows and one more.
    assert!(loaded < 5 * requests, "{requests} requests read {loaded} events");
    let job = engine.job(id).await.unwrap().value;
    let events = engine.events(id, Seq(0)).await.unwrap();
    assert_eq!(lastword_core::Job::fold(id, &events).unwrap(), job, "it is the fold of the whole log");
    assert_eq!(engine.desk().folded(id).await.unwrap().shown.len(), 2, "submitted and intended");
}

/// The journal has no such job any more, then a new one under the same id, which is longer than what was known.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_that_was_removed_is_forgotten() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("sleep 100")).await;
    change_limit(&engine, id, MANY).await;
    engine.desk().cancel(id, &wish(true)).await.unwrap();
    let before = end_of(&engine, id).await;
    engine.remove(id, false).await.unwrap();
    assert!(matches!(engine.job(id).await, Err(Error::Refused(Refusal::NotFound(_)))));
    // Another process may remove a job: this one is not told.
    engine.submit(id, bench.script("sleep 100"), env(), "ann").await.unwrap();
    change_limit(&engine, id, MANY).await;
    engine.desk().cancel(id, &wish(true)).await.unwrap();
    end_of(&engine, id).await;
    let other = bench.start_without_checks();
    other.remove(id, false).await.unwrap();
    assert!(matches!(engine.job(id).await, Err(Error::Refused(Refusal::NotFound(_)))));
    other.submit(id, bench.script("sleep 99"), env(), "ann").await.unwrap();
    change_limit(&other, id, 2 * MANY).await;
    let after = engine.job(id).await.unwrap().value;
    assert_ne!(after.spec, before.spec);
    assert!(after.version.0 > before.version.0);
}
