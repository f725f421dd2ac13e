//! A job from its submission to its last word.

use lastword_core::AttemptNo;
use lastword_core::outcome::Outcome;
use lastword_core::receipt::Exit;
use lastword_engine::Stream;

use super::{Bench, end_of, leader_of, outcome, read, run, wish};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_to_its_last_word() {
    let bench = Bench::new();
    let engine = bench.start();
    for (script, code) in [("exit 0", 0), ("exit 7", 7)] {
        let id = run(&engine, bench.script(script)).await;
        assert_eq!(outcome(&end_of(&engine, id).await).1, Some(Exit::Code(code)));
    }
    assert_eq!(engine.troubles(), []);
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
    engine.cancel(id, &wish(false)).await.unwrap();
    let job = end_of(&engine, id).await;
    assert!(matches!(outcome(&job).0, Outcome::Cancelled { .. }));
    assert!(!leader.is_alive());
    assert_eq!(read(&engine, id, AttemptNo(1), Stream::Stdout), "before\n");
}
