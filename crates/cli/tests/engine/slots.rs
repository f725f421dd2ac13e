//! Workers with slots of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lastword_core::spec::Spec;
use lastword_core::{HostId, OwnerId};
use lastword_engine::Group;
use lastword_store::{Catalog as _, Filter, Groups as _};

use super::{Bench, HOUR_MS, end_of, leader_of, run, wish};
use crate::common::PATIENCE;

/// Returns how many jobs each owner holds.
async fn held(bench: &Bench) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for row in bench.journal.rows(Filter::default(), None, 100).await.unwrap() {
        if let Some(holder) = row.holder {
            *held.entry(holder.owner.0.to_string()).or_default() += 1;
        }
    }
    held
}

/// A worker without periodic checks fills its slots, whichever groups the jobs are in, and takes the next when one is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_no_more_jobs_than_it_has_slots() {
    let bench = Bench::new();
    let engine = bench.start_with(|options| {
        (options.sweep_ms, options.lease_ms, options.slots) = (HOUR_MS, 3 * HOUR_MS, Some(2));
    });
    engine.ready().await;
    for group in ["one", "two"] {
        engine.desk().set_group(Group::new(group, None)).await.unwrap();
    }
    let in_group = |group: &str| Spec { group: group.to_owned(), ..bench.script("sleep 100") };
    let mut jobs = Vec::new();
    for group in ["one", "one", "one", "two", "two"] {
        jobs.push(run(&engine, in_group(group)).await);
    }
    for place in 0..jobs.len() {
        let now = &jobs[place..(place + 2).min(jobs.len())];
        for job in now {
            leader_of(&engine, *job).await;
        }
        assert_eq!(held(&bench).await, BTreeMap::from([("daemon".to_owned(), now.len())]));
        engine.desk().cancel(jobs[place], &wish(true)).await.unwrap();
        end_of(&engine, jobs[place]).await;
    }
    assert_eq!(engine.desk().troubles(), []);
}

/// Two workers share what there is, each as far as it has slots.
#[tokio::test(flavor = "multi_thread")]
async fn two_workers_take_as_many_jobs_as_each_has_slots() {
    const JOBS: usize = 24;
    let bench = Bench::new();
    bench.journal.set_group(Group::new("default", None)).await.unwrap();
    let start = |name: &'static str, slots| {
        bench.start_with(move |options| {
            options.owner = OwnerId(Arc::from(name));
            options.host = HostId(Arc::from(name));
            (options.sweep_ms, options.slots) = (20, Some(slots));
        })
    };
    let (ann, bob) = (start("ann", 3), start("bob", 2));
    ann.ready().await;
    bob.ready().await;
    for _ in 0..JOBS {
        run(&ann, bench.script("sleep 0.1")).await;
    }
    let (mut most, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let begin = Instant::now();
    loop {
        for (owner, count) in held(&bench).await {
            let most: &mut usize = most.entry(owner.clone()).or_default();
            *most = count.max(*most);
            seen.insert(owner);
        }
        let rows = bench.journal.rows(Filter::default(), None, 100).await.unwrap();
        if rows.iter().all(|row| row.outcome.is_some()) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "they do not end: {most:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(most, BTreeMap::from([("ann".to_owned(), 3), ("bob".to_owned(), 2)]));
}
