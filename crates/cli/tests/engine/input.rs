//! Input for a command: in order, once, even if an engine dies.

use lastword_core::decide::Refusal;
use lastword_core::outcome::Outcome;
use lastword_core::spec::{Io, Spec};
use lastword_engine::Error;

use super::trouble::reported;
use super::{Bench, end_of, leader_of, outcome, output_of, read, run, until};
use lastword_core::AttemptNo;
use lastword_engine::Stream;

fn reader(bench: &Bench) -> Spec {
    Spec { io: Io::Pipe, ..bench.script("cat; echo over") }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_arrive_in_order_and_the_last_one_closes() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, reader(&bench)).await;
    let mut expected = String::new();
    for n in 1..=40 {
        let line = format!("line {n}\n");
        let (_, input) = engine.desk().send(id, "ann", &line, n == 40, None).await.unwrap();
        assert_eq!(input.0, n);
        expected.push_str(&line);
    }
    let job = end_of(&engine, id).await;
    assert_eq!(outcome(&job).0, Outcome::Completed);
    assert_eq!(read(&engine, id, AttemptNo(1), Stream::Stdout).await, format!("{expected}over\n"));
    assert!(job.inputs.is_empty(), "all are confirmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_delivered_once_across_engines() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = run(&engine, reader(&bench)).await;
    leader_of(&engine, id).await;
    for n in 1..=3 {
        engine.desk().send(id, "ann", &format!("{n}\n"), false, None).await.unwrap();
    }
    // It dies with some inputs delivered, some not, and some delivered but unconfirmed.
    drop(engine);
    let engine = bench.start();
    engine.ready().await;
    engine.desk().send(id, "ann", "4\n", true, None).await.unwrap();
    end_of(&engine, id).await;
    assert_eq!(output_of(&engine, id, "over").await, "1\n2\n3\n4\nover\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_echoes_and_a_command_without_input_takes_none() {
    let bench = Bench::new();
    let engine = bench.start();
    let spec =
        Spec { io: Io::Terminal { rows: 30, columns: 77 }, ..bench.script("stty size; read x; echo got $x") };
    let id = run(&engine, spec).await;
    output_of(&engine, id, "30 77").await;
    engine.desk().send(id, "ann", "hello\n", false, None).await.unwrap();
    end_of(&engine, id).await;
    assert!(output_of(&engine, id, "got hello").await.contains("hello\r\n"));
    let deaf = run(&engine, bench.script("sleep 100")).await;
    let refused = engine.desk().send(deaf, "ann", "x", false, None).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Nothing(..)))), "{refused:?}");
    engine.desk().cancel(deaf, &super::wish(true)).await.unwrap();
    end_of(&engine, deaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_input_is_reported_until_the_job_ends() {
    let bench = Bench::new();
    let engine = bench.start();
    let spec =
        Spec { io: Io::Pipe, ..bench.script("exec <&-; echo closed; until test -e go; do sleep 0.01; done") };
    let id = run(&engine, spec).await;
    output_of(&engine, id, "closed").await;
    engine.desk().send(id, "ann", "anybody?\n", false, None).await.unwrap();
    // The pipe accepts the first input although it has no reader; only the second write fails.
    engine.desk().send(id, "ann", "really?\n", false, None).await.unwrap();
    reported(&engine, |trouble| trouble.job == Some(id)).await;
    let waiting = until(&engine, id, |job| !job.inputs.is_empty()).await;
    assert!(!waiting.is_ended());
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    end_of(&engine, id).await;
    assert_eq!(engine.desk().troubles(), []);
}
