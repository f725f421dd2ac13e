//! Two workers on one journal that hosts share, each with keepers and lease files of its own.

use std::sync::atomic::Ordering;

use lastword_core::event::Fact;
use lastword_core::outcome::Outcome;
use lastword_core::receipt::{KeeperStop, Proof};
use lastword_core::spec::Spec;
use lastword_core::{HostId, Job, JobId, OwnerId, Seq};
use lastword_engine::{Engine, Jobs, LocalHost, Options};
use lastword_store::memory::Memory;

use super::faulty::{Faulty, RENEWALS};
use super::{Bench, HOUR_MS, end_of, leader_of, outcome, run, until, wish};
use crate::common::{self, start_nursery};

const LEASE_MS: u64 = 3_000;
const MARGIN_MS: u64 = 500;

type Worker = Engine<Faulty<Memory>>;

/// Starts a worker on its own host.
fn start(bench: &Bench, journal: &Faulty<Memory>, name: &str) -> Worker {
    start_with(bench, journal, name, |_| {})
}

fn start_with(
    bench: &Bench,
    journal: &Faulty<Memory>,
    name: &str,
    change: impl FnOnce(&mut Options),
) -> Worker {
    let folder = bench.cwd().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let host = LocalHost::new(folder.join("jobs"), || Ok(start_nursery())).unwrap();
    // What runs here may have been submitted at another host.
    let host = host.with_leases(folder.join("leases")).unwrap().with_env(std::env::vars_os().collect());
    let mut options = Options {
        lease_ms: LEASE_MS,
        margin_ms: MARGIN_MS,
        sweep_ms: 500,
        ..Options::new(OwnerId(name.into()), HostId(name.into()))
    };
    change(&mut options);
    Engine::start(journal.clone(), host, options)
}

/// Returns a job that writes the time to `beats` for as long as it lives.
fn canary(bench: &Bench) -> Spec {
    bench.script("while :; do date +%s%3N >beats.part; mv beats.part beats; sleep 0.02; done")
}

/// Returns when it last was alive, in milliseconds since 1970.
fn last_beat(bench: &Bench) -> u64 {
    let text = std::fs::read_to_string(bench.cwd().join("beats")).expect("it has begun");
    text.trim().parse().expect("it is a time")
}

/// Returns when the first attempt of a job was recorded as ended.
async fn ended_at(engine: &Worker, id: JobId) -> u64 {
    let events = engine.events(id, Seq(0)).await.unwrap();
    let end = events.iter().find(|event| matches!(event.fact, Fact::AttemptEnded(_)));
    end.expect("it ended").at.0
}

#[tokio::test(flavor = "multi_thread")]
async fn c38_a_worker_that_is_cut_off_has_ended_its_trees_before_another_takes_over() {
    let bench = Bench::new();
    let journal = Memory::shared(1);
    let (cut, near) = (Faulty::new(journal.clone()), Faulty::new(journal));
    let ann = start(&bench, &cut, "ann");
    let id = run(&ann, canary(&bench)).await;
    let leader = leader_of(&ann, id).await;
    let bob = start(&bench, &near, "bob");
    bob.ready().await;
    cut.away.store(true, Ordering::Relaxed);
    let job = end_of(&bob, id).await;
    assert_eq!(outcome(&job).0, Outcome::Lost);
    let end = job.attempts[0].end.as_ref().expect("it ended");
    assert_eq!(end.receipt.proof, Proof::LeaseSelfFenced, "bob cannot see it");
    assert!(!leader.is_alive());
    assert!(last_beat(&bench) < ended_at(&bob, id).await, "it was alive when it was called dead");

    // The host that was cut off comes back, and adds what it knows.
    cut.away.store(false, Ordering::Relaxed);
    let late = until(&ann, id, |job: &Job| job.late > 0).await;
    assert_eq!(late.last_word(), job.last_word());
}

#[tokio::test(flavor = "multi_thread")]
async fn c102_a_worker_that_stops_keeps_its_trees_and_no_other_calls_them_dead() {
    let bench = Bench::new();
    let journal = Faulty::new(Memory::shared(1));
    let ann = start(&bench, &journal, "ann");
    let id = run(&ann, canary(&bench)).await;
    let leader = leader_of(&ann, id).await;
    let bob = start(&bench, &journal, "bob");
    bob.ready().await;
    ann.shut_down(Jobs::Keep).await.unwrap();
    drop(ann);
    let before = journal.looks.load(Ordering::Relaxed);
    let looked = || (journal.looks.load(Ordering::Relaxed) >= before + 3).then_some(());
    common::until("bob has looked several times", looked);
    let ann = start(&bench, &journal, "ann");
    ann.ready().await;
    let job = ann.job(id).await.unwrap().value;
    assert_eq!((job.attempts.len(), job.attempts[0].end.is_none()), (1, true), "{:?}", job.phase);
    assert!(leader.is_alive());
    // It is alive under the lease of the next life.
    let beat = last_beat(&bench);
    common::until("it outlives the lease before", || (last_beat(&bench) > beat + LEASE_MS).then_some(()));

    // Nothing of it stays when it does not come back.
    ann.shut_down(Jobs::Keep).await.unwrap();
    drop(ann);
    let job = end_of(&bob, id).await;
    assert_eq!(outcome(&job).0, Outcome::Lost);
    assert!(!leader.is_alive());
    assert!(last_beat(&bench) < ended_at(&bob, id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_cancel_its_jobs_cancels_no_others() {
    let bench = Bench::new();
    let journal = Faulty::new(Memory::shared(1));
    let bob = start(&bench, &journal, "bob");
    let of_bob = run(&bob, bench.script("sleep 100")).await;
    leader_of(&bob, of_bob).await;
    let paused = lastword_engine::Group { paused: true, ..lastword_engine::Group::new("later", None) };
    bob.desk().set_group(paused).await.unwrap();
    let waiting = run(&bob, Spec { group: "later".to_owned(), ..bench.script("true") }).await;
    let ann = start(&bench, &journal, "ann");
    ann.ready().await;
    ann.shut_down(Jobs::Cancel).await.unwrap();
    for id in [of_bob, waiting] {
        let job = bob.job(id).await.unwrap().value;
        assert!(!job.is_ended() && job.stop.is_none(), "{:?}", job.phase);
    }
    bob.desk().cancel(of_bob, &wish(true)).await.unwrap();
    end_of(&bob, of_bob).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c38_a_worker_whose_lease_ran_out_begins_another_life() {
    let bench = Bench::new();
    let journal = Faulty::new(Memory::shared(1));
    let ann = start(&bench, &journal, "ann");
    let id = run(&ann, canary(&bench)).await;
    let leader = leader_of(&ann, id).await;
    journal.away.store(true, Ordering::Relaxed);
    common::until("its keeper ends the tree", || (!leader.is_alive()).then_some(()));
    journal.away.store(false, Ordering::Relaxed);
    let job = end_of(&ann, id).await;
    let end = job.attempts[0].end.as_ref().expect("it ended");
    assert_eq!(end.receipt.keeper_stop, Some(KeeperStop::Lease), "its own host has the record");
    let next = run(&ann, bench.script("true")).await;
    assert_eq!(outcome(&end_of(&ann, next).await).0, Outcome::Completed);
    let told = ann.desk().troubles();
    assert!(told.iter().any(|trouble| trouble.what.contains("its lease ran out")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_worker_heard_of_while_its_renewal_was_late_is_claimed() {
    let bench = Bench::new();
    let journal = Memory::shared(1);
    let (slow, near) = (Faulty::new(journal.clone()), Faulty::new(journal));
    // A hint that it loses stays lost.
    let ann = start_with(&bench, &slow, "ann", |options| options.sweep_ms = HOUR_MS);
    let bob = start_with(&bench, &near, "bob", |options| options.slots = Some(0));
    let leader = leader_of(&ann, run(&ann, canary(&bench)).await).await;
    let held_back = slow.renewals.acquire_many(RENEWALS).await.unwrap();
    common::until("its keeper ends the tree", || (!leader.is_alive()).then_some(()));

    // It reads the groups when it hears of one that it does not know, and then claims. With the second read it is done with the first group.
    let mut ids = Vec::new();
    for group in ["night", "day"] {
        let before = slow.group_reads.load(Ordering::Relaxed);
        ids.push(run(&bob, Spec { group: group.to_owned(), ..bench.script("true") }).await);
        let heard = || (slow.group_reads.load(Ordering::Relaxed) > before).then_some(());
        common::until("ann has heard of the group", heard);
    }
    drop(held_back);
    for id in ids {
        assert_eq!(outcome(&end_of(&bob, id).await).0, Outcome::Completed);
    }
}
