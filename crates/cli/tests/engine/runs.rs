//! A job from its submission to its last word.

use lastword_core::AttemptNo;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::receipt::Exit;
use lastword_core::spec::Spec;
use lastword_engine::{Group, Stream};

use super::{Bench, end_of, leader_of, outcome, read, run, wish};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_to_its_last_word() {
    let bench = Bench::new();
    let engine = bench.start();
    for (script, code) in [("exit 0", 0), ("exit 7", 7)] {
        let id = run(&engine, bench.script(script)).await;
        assert_eq!(outcome(&end_of(&engine, id).await).1, Some(Exit::Code(code)));
    }
    assert_eq!(engine.desk().troubles(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn c37_another_engine_takes_over_and_a_cancel_ends_the_tree() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, bench.script("echo before; sleep 100")).await;
    let leader = leader_of(&engine, id).await;
    drop(engine);
    assert!(leader.is_alive());
    let engine = bench.start();
    engine.ready().await;
    engine.desk().cancel(id, &wish(false)).await.unwrap();
    let job = end_of(&engine, id).await;
    assert!(matches!(outcome(&job).0, Outcome::Cancelled { .. }));
    assert!(!leader.is_alive());
    assert_eq!(read(&engine, id, AttemptNo(1), Stream::Stdout).await, "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_error_fails_the_job_and_is_reported() {
    let bench = Bench::new();
    let engine = bench.start();
    let cwd = bench.cwd().display().to_string();
    for (spec, expected) in [
        (Spec::command(["/no/such/program"], cwd.clone()), "No such file"),
        (Spec::command(["true"], "/no/such/folder"), "No such file"),
        (Spec::command(["/etc/passwd"], cwd), "Permission denied"),
    ] {
        let id = run(&engine, spec).await;
        let job = end_of(&engine, id).await;
        let last_word = job.last_word().unwrap();
        assert_eq!((last_word.outcome, last_word.cause), (Outcome::Failed, Cause::Launch));
        assert_eq!(job.attempts.len(), 1, "a retry would fail, too");
        let error = job.attempts[0].end.as_ref().and_then(|end| end.error.clone()).unwrap_or_default();
        assert!(error.contains(expected), "{error}");
    }
    // A job without its environment is not started: it would run in a wrong one.
    let id = engine.desk().new_id().unwrap();
    let group = Group { paused: true, ..Group::new("default", Some(1)) };
    engine.desk().set_group(group.clone()).await.unwrap();
    engine.submit(id, bench.script("true"), super::env(), "ann").await.unwrap();
    std::fs::remove_file(bench.jobs().join(id.to_string()).join("env")).unwrap();
    engine.desk().set_group(Group { paused: false, ..group }).await.unwrap();
    let job = end_of(&engine, id).await;
    let error = job.attempts[0].end.as_ref().and_then(|end| end.error.clone()).unwrap_or_default();
    assert!(error.contains("environment"), "{error}");
    assert_eq!(engine.desk().troubles(), []);
}
