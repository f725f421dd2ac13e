//! One read is enough: the first answer after any death is up to date.

use std::time::{Duration, Instant};

use lastword_core::outcome::Outcome;
use lastword_core::{Job, JobId};
use lastword_engine::{Engine, Until};
use lastword_proc::{Identity, Located, locate};
use lastword_store::sqlite::Sqlite;
use lastword_store::{Filter, List};
use rustix::process::Signal;

use super::{Bench, end_of, leader, leader_of, outcome, run};
use crate::common::PATIENCE;

/// Returns the guard and the shim of a job's tree.
fn keeper_of(bench: &Bench, id: JobId, leader: &Identity) -> [Identity; 2] {
    let Ok(Located::Alive(alive)) = locate(&bench.jobs().join(format!("{id}/1")), &leader.boot) else {
        panic!("it runs");
    };
    let shim = lastword_proc::ancestors(leader.pid).unwrap()[1].0;
    [alive.guard, Identity::of(shim).expect("the shim lives")]
}

/// Kills guard and shim, and returns when both are dead.
fn kill_keeper(bench: &Bench, id: JobId, leader: &Identity) {
    let keeper = keeper_of(bench, id, leader);
    for process in &keeper {
        assert!(process.signal(Signal::STOP).unwrap());
    }
    for process in &keeper {
        assert!(process.signal(Signal::KILL).unwrap());
    }
    crate::common::until("the keeper is dead", || keeper.iter().all(|one| !one.is_alive()).then_some(()));
}

async fn running(engine: &Engine<Sqlite>, bench: &Bench) -> (JobId, Identity) {
    let id = run(engine, bench.script("sleep 100")).await;
    (id, leader_of(engine, id).await)
}

fn assert_lost(job: &Job, leader: &Identity) {
    assert_eq!(outcome(job).0, Outcome::Lost, "how it would have ended is unknown");
    assert!(!leader.is_alive(), "the sweep killed it before the answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn c61_one_read_shows_the_end_of_a_job_whose_keeper_died() {
    let bench = Bench::new();
    let engine = bench.start();
    let (id, leader) = running(&engine, &bench).await;
    kill_keeper(&bench, id, &leader);
    let read = engine.job(id).await.unwrap();
    assert!(!read.unsettled);
    assert_lost(&read.value, &leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn c61_c62_one_list_shows_every_end_before_applying_its_limit() {
    let bench = Bench::new();
    let engine = bench.start();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(running(&engine, &bench).await);
    }
    for (id, leader) in &jobs[1..3] {
        kill_keeper(&bench, *id, leader);
    }
    let ended = Filter { phases: vec![lastword_core::view::row::PhaseName::Ended], ..Filter::default() };
    let rows = engine.rows(ended, None, 2).await.unwrap();
    assert!(!rows.unsettled);
    let listed: Vec<JobId> = rows.value.iter().map(|row| row.job).collect();
    assert_eq!(listed, [jobs[2].0, jobs[1].0], "newest first, both in the answer");
    for (id, _) in [&jobs[0], &jobs[3]] {
        engine.desk().cancel(*id, &super::wish(true)).await.unwrap();
        end_of(&engine, *id).await;
    }
}

/// Later pages leave out what changed since then, so what the first page itself settles must not count.
#[tokio::test(flavor = "multi_thread")]
async fn c62_a_list_is_as_new_as_the_deaths_it_settled() {
    let bench = Bench::new();
    let engine = bench.start();
    let (id, leader) = running(&engine, &bench).await;
    kill_keeper(&bench, id, &leader);
    let (listed, begun) = engine.list(List { limit: 9, ..List::default() }).await.unwrap();
    let row = &listed.value[0].row;
    assert_eq!((row.job, row.outcome.is_some()), (id, true));
    assert!(row.changed_at <= begun, "{:?} is after {begun:?}", row.changed_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn c63_c57_a_wait_ends_when_the_keeper_dies_not_at_its_timeout() {
    let bench = Bench::new();
    let engine = bench.start();
    let (id, leader) = running(&engine, &bench).await;
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.wait(id, Until::Ended, PATIENCE).await.unwrap().value })
        })
        .collect();
    let begin = Instant::now();
    kill_keeper(&bench, id, &leader);
    for wait in waits {
        assert_lost(&wait.await.unwrap(), &leader);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn c61_the_first_read_after_a_crash_is_up_to_date() {
    let bench = Bench::new();
    let engine = bench.start();
    let done = run(&engine, bench.script("until test -e go; do sleep 0.01; done; exit 5")).await;
    let first = leader_of(&engine, done).await;
    let (killed, second) = running(&engine, &bench).await;
    let (alive, third) = running(&engine, &bench).await;
    drop(engine);
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    kill_keeper(&bench, killed, &second);
    crate::common::until("one has ended by itself", || (!first.is_alive()).then_some(()));
    let engine = bench.start();
    engine.ready().await;
    let read = |id| {
        let engine = engine.clone();
        async move { engine.job(id).await.unwrap().value }
    };
    assert_eq!(outcome(&read(done).await).1, Some(lastword_core::receipt::Exit::Code(5)));
    assert_lost(&read(killed).await, &second);
    let found = read(alive).await;
    assert_eq!(leader(&found).pid, third.pid, "the same tree, adopted");
    engine.desk().cancel(alive, &super::wish(true)).await.unwrap();
    end_of(&engine, alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c65_a_killed_shim_counts_as_a_dead_keeper() {
    let bench = Bench::new();
    let engine = bench.start();
    let (id, leader) = running(&engine, &bench).await;
    let [guard, shim] = keeper_of(&bench, id, &leader);
    assert!(shim.signal(Signal::KILL).unwrap());
    crate::common::until("the shim is dead", || (!shim.is_alive()).then_some(()));
    let read = engine.job(id).await.unwrap();
    assert!(read.value.is_ended() && !read.unsettled, "{:?}", read.value.phase);
    assert!(!leader.is_alive());
    crate::common::until("its guard has exited", || (!guard.is_alive()).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_attributed_by_its_ancestry() {
    let bench = Bench::new();
    let engine = bench.start();
    let id =
        run(&engine, bench.script("sh -c 'sh -c \"sleep 100 & wait\" & wait' & setsid sleep 100 & wait"))
            .await;
    let leader = leader_of(&engine, id).await;
    let ancestors = |pid: i32| lastword_proc::ancestors(pid).unwrap();
    let line = ancestors(leader.pid);
    assert_eq!(engine.holder_of(&line), Some(id));
    assert_eq!(engine.holder_of(&line[1..]), Some(id), "its shim");
    assert_eq!(engine.holder_of(&ancestors(std::process::id().cast_signed())), None);
    drop(engine);
    let engine = bench.start();
    engine.ready().await;
    assert_eq!(engine.holder_of(&line), Some(id), "an adopted tree, too");
    engine.desk().cancel(id, &super::wish(true)).await.unwrap();
    end_of(&engine, id).await;
    assert_eq!(engine.holder_of(&line), None);
}
