//! A host with leases: trees follow the lease of the life that launched or adopted them.

use lastword_core::ids::Incarnation;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::receipt::{KeeperStop, LaunchError, LaunchStep};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{AttemptNo, HostId, Job, JobId, OwnerId, Phase};
use lastword_engine::host::Keepers as _;
use lastword_engine::{Engine, Jobs, LocalHost, Options};
use lastword_proc::{Keeper, LeaseFile, clock};
use lastword_store::sqlite::Sqlite;

use super::{Bench, end_of, leader_of, run};
use crate::common::{self, start_nursery};

/// No life of this length is renewed during a test.
const LONG_MS: u64 = 600_000;

/// Long enough for its trees to be adopted.
const SHORT_MS: u64 = 3_000;

fn host(bench: &Bench) -> LocalHost {
    let host = LocalHost::new(bench.jobs(), || Ok(start_nursery())).unwrap();
    host.with_leases(bench.cwd().join("leases")).unwrap()
}

fn start(bench: &Bench, host: &LocalHost, lease_ms: u64) -> Engine<Sqlite> {
    let options = Options::new(OwnerId("worker".into()), HostId("here".into()));
    Engine::start(bench.journal.clone(), host.clone(), Options { lease_ms, ..options })
}

/// Returns the file of the lease of a life.
fn file_of(bench: &Bench, life: Incarnation) -> LeaseFile {
    LeaseFile::new(bench.cwd().join(format!("leases/{:x}-{}", life.instance, life.number)))
}

/// Returns until when the lease of a tree lasts, as its keeper has read it.
fn lease_of(host: &LocalHost, job: JobId) -> Option<u64> {
    Keeper::connect(&host.dir(job, AttemptNo(1)), 0).unwrap().status().unwrap().lease
}

fn life_of(job: &Job) -> Incarnation {
    job.holder.as_ref().expect("it is held").fence.incarnation
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_follows_the_lease_of_the_life_that_holds_it() {
    let bench = Bench::new();
    let first = host(&bench);
    let engine = start(&bench, &first, LONG_MS);
    engine.ready().await;
    // Without a lease nothing may run, and that is no failure of the job.
    for entry in std::fs::read_dir(bench.cwd().join("leases")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let early = run(&engine, bench.script("echo >ran")).await;
    let early = end_of(&engine, early).await;
    assert!(!bench.cwd().join("ran").exists());
    assert!(early.attempts.len() > 1, "it was launched again");
    for attempt in &early.attempts {
        let end = attempt.end.as_ref().expect("it ended");
        assert_eq!(end.receipt.launch_error, Some(LaunchError::at(LaunchStep::Lease)));
    }
    // A job that outlives the partition has no lease, and tells which life this is.
    let kept = Spec { on_partition: OnPartition::Keep, ..bench.script("sleep 100") };
    let kept = run(&engine, kept).await;
    let kept_leader = leader_of(&engine, kept).await;
    assert_eq!(lease_of(&first, kept), None);
    let life = life_of(&engine.job(kept).await.unwrap().value);

    let until = clock::boot_ms() + LONG_MS;
    first.extend_lease(life, until).await.unwrap();
    let leased = run(&engine, bench.script("sleep 100")).await;
    let leader = leader_of(&engine, leased).await;
    assert_eq!(lease_of(&first, leased), Some(until));
    engine.shut_down(Jobs::Keep).await.unwrap();
    drop(engine);

    // The next life has a lease of its own, which it gives to what it adopts.
    let second = host(&bench);
    let engine = start(&bench, &second, 2 * LONG_MS);
    let is_adopted = |job: &Job| job.phase == Phase::Running && life_of(job) != life;
    let next = life_of(&super::until(&engine, leased, is_adopted).await);
    let later = file_of(&bench, next).read().expect("the life has a lease");
    assert!(later > until);
    common::until("the tree is adopted", || (lease_of(&second, leased) == Some(later)).then_some(()));
    assert_eq!(lease_of(&second, kept), None);
    assert!(leader.is_alive());
    engine.shut_down(Jobs::Keep).await.unwrap();
    drop(engine);

    // A life that is renewed no more ends the trees that it has adopted.
    let third = host(&bench);
    let engine = start(&bench, &third, SHORT_MS);
    let read = || lease_of(&third, leased).filter(|until| *until < later);
    let until = common::until("the tree is adopted", read);
    drop(engine);
    common::until("the lease is over", || (!leader.is_alive()).then_some(()));
    assert!(clock::boot_ms() >= until);
    let engine = start(&bench, &host(&bench), LONG_MS);
    let ended = end_of(&engine, leased).await;
    let word = ended.last_word().expect("it ended");
    assert_eq!((word.outcome, word.cause), (Outcome::Lost, Cause::Unaccounted));
    let end = ended.attempts[0].end.as_ref().expect("it ended");
    assert_eq!(end.receipt.keeper_stop, Some(KeeperStop::Lease));
    assert!(kept_leader.is_alive());
    engine.desk().cancel(kept, &super::wish(true)).await.unwrap();
    end_of(&engine, kept).await;
}
