//! A host with leases: trees follow the lease of the life that launched or adopted them.

use lastword_core::ids::Incarnation;
use lastword_core::job::Phase;
use lastword_core::receipt::{LaunchError, LaunchStep};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{AttemptNo, HostId, Job, JobId, OwnerId};
use lastword_engine::{Engine, Jobs, LocalHost, Options};
use lastword_proc::{Keeper, clock};
use lastword_store::sqlite::Sqlite;

use super::{Bench, end_of, leader_of, run};
use crate::common::{self, start_nursery};

fn host(bench: &Bench) -> LocalHost {
    let host = LocalHost::new(bench.jobs(), || Ok(start_nursery())).unwrap();
    host.with_leases(bench.cwd().join("leases")).unwrap()
}

fn start(bench: &Bench, host: &LocalHost) -> Engine<Sqlite> {
    let options = Options::new(OwnerId("worker".into()), HostId("here".into()));
    Engine::start(bench.journal.clone(), host.clone(), options)
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
    let engine = start(&bench, &first);
    // A job that outlives the partition has no lease.
    let kept = Spec { on_partition: OnPartition::Keep, ..bench.script("sleep 100") };
    let kept = run(&engine, kept).await;
    let kept_leader = leader_of(&engine, kept).await;
    assert_eq!(lease_of(&first, kept), None);
    let life = life_of(&engine.job(kept).await.unwrap().value);

    let leased = run(&engine, bench.script("sleep 100")).await;
    let leader = leader_of(&engine, leased).await;
    let until = lease_of(&first, leased).expect("it has one");
    assert!(until > clock::boot_ms(), "it was written when the life began");
    engine.shut_down(Jobs::Keep).await.unwrap();
    drop(engine);

    // The next life has a lease of its own, which it gives to what it adopts.
    let next = Incarnation { number: life.number + 1, ..life };
    let second = host(&bench);
    let engine = start(&bench, &second);
    let is_adopted = |job: &Job| {
        let life = job.holder.as_ref().map(|holder| holder.fence.incarnation);
        life == Some(next) && job.phase == Phase::Running
    };
    super::until(&engine, leased, is_adopted).await;
    common::until("the tree is adopted", || (lease_of(&second, leased) > Some(until)).then_some(()));
    assert_eq!(lease_of(&second, kept), None);
    assert!(leader.is_alive());

    assert!(kept_leader.is_alive());
    engine.desk().cancel(leased, &super::wish(true)).await.unwrap();
    end_of(&engine, leased).await;
    engine.desk().cancel(kept, &super::wish(true)).await.unwrap();
    end_of(&engine, kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_without_a_lease_is_refused_and_tried_again() {
    let bench = Bench::new();
    let engine = start(&bench, &host(&bench));
    engine.ready().await;
    for entry in std::fs::read_dir(bench.cwd().join("leases")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let id = run(&engine, bench.script("echo >ran")).await;
    let job = end_of(&engine, id).await;
    assert!(!bench.cwd().join("ran").exists());
    assert!(job.attempts.len() > 1, "it is no failure of the job");
    for attempt in &job.attempts {
        let end = attempt.end.as_ref().expect("it ended");
        assert_eq!(end.receipt.launch_error, Some(LaunchError::at(LaunchStep::Lease)));
    }
}
