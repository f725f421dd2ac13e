//! What is kept of a job and for how long: environment, recordings, log.

use std::os::unix::fs::PermissionsExt as _;

use lastword_core::AttemptNo;
use lastword_core::decide::Refusal;
use lastword_engine::{Env, Error, Prune, Stream};

use super::{Bench, end_of, leader_of, read, run};

fn pairs(pairs: &[(&str, &str)]) -> Env {
    Env::new(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_private_and_deleted_with_the_last_word() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = engine.desk().new_id().unwrap();
    let env = pairs(&[
        ("PATH", "/usr/bin:/bin"),
        ("SECRET", "xyzzy"),
        ("LD_PRELOAD", "/evil.so"),
        ("LASTWORD_ATTEMPT", "9"),
    ]);
    let script =
        "echo $SECRET,$LD_PRELOAD,$LASTWORD_JOB_ID,$LASTWORD_ATTEMPT; until test -e go; do sleep 0.01; done";
    engine.submit(id, bench.script(script), env, "ann").await.unwrap();
    leader_of(&engine, id).await;
    let file = bench.jobs().join(id.to_string()).join("env");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(bench.cwd().join("go"), "").unwrap();
    let job = end_of(&engine, id).await;
    assert_eq!(read(&engine, id, AttemptNo(1), Stream::Stdout).await, format!("xyzzy,,{id},1\n"));
    crate::common::until("its environment is deleted", || (!file.exists()).then_some(()));
    let events = engine.events(id, lastword_core::Seq(0)).await.unwrap();
    assert!(!format!("{events:?}{job:?}").contains("xyzzy"), "no event contains it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_left_by_a_crash_is_deleted_by_the_next_engine() {
    let bench = Bench::new();
    let engine = bench.start();
    let over = run(&engine, bench.script("true")).await;
    end_of(&engine, over).await;
    let alive = run(&engine, bench.script("sleep 100")).await;
    leader_of(&engine, alive).await;
    let file = |id: lastword_core::JobId| bench.jobs().join(id.to_string()).join("env");
    crate::common::until("it was removed", || (!file(over).exists()).then_some(()));
    drop(engine);
    // As a crash after the last word, and one before the job was stored, would leave it.
    std::fs::write(file(over), "A=b\0").unwrap();
    let never = bench.jobs().join("job_0301m7e81w00e07vy0820c20a1gf");
    std::fs::create_dir(&never).unwrap();
    std::fs::write(never.join("env"), "A=b\0").unwrap();
    let engine = bench.start();
    engine.ready().await;
    crate::common::until("both are deleted", || (!file(over).exists() && !never.exists()).then_some(()));
    assert!(file(alive).exists(), "a live job keeps its environment");
    engine.desk().cancel(alive, &super::wish(true)).await.unwrap();
    end_of(&engine, alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c45_prune_keeps_live_jobs_and_counts_unread_results() {
    let bench = Bench::new();
    let engine = bench.start();
    let mut ended = Vec::new();
    for _ in 0..3 {
        let id = run(&engine, bench.script("echo x")).await;
        end_of(&engine, id).await;
        ended.push(id);
    }
    let alive = run(&engine, bench.script("sleep 100")).await;
    let leader = leader_of(&engine, alive).await;
    let now = engine.desk().now().wall;
    engine.desk().seen(ended[0], now).await.unwrap();
    let refused = engine.desk().seen(alive, now).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotEnded(_)))), "{refused:?}");
    let prune = Prune { older_than_ms: 0, unread: false, unsaved: false, dry_run: true };
    let would = engine.prune(&prune).await.unwrap();
    assert_eq!((would.removed.as_slice(), would.kept_unread), (&ended[..1], 2));
    assert!(engine.job(ended[0]).await.is_ok(), "it was a dry run");
    let young = engine.prune(&Prune { older_than_ms: 3_600_000, dry_run: false, ..prune }).await.unwrap();
    assert_eq!((young.removed.len(), young.kept_unread), (0, 0));
    let did = engine.prune(&Prune { dry_run: false, ..prune }).await.unwrap();
    assert_eq!(did, would);
    assert!(matches!(engine.job(ended[0]).await, Err(Error::Refused(Refusal::NotFound(_)))));
    assert!(!bench.jobs().join(ended[0].to_string()).exists(), "its recordings are deleted, too");
    let all = engine.prune(&Prune { unread: true, dry_run: false, ..prune }).await.unwrap();
    assert_eq!((all.removed.len(), all.kept_unread), (2, 0));
    assert!(leader.is_alive());
    let refused = engine.remove(alive, false).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotEnded(_)))), "{refused:?}");
    engine.desk().cancel(alive, &super::wish(true)).await.unwrap();
    end_of(&engine, alive).await;
    engine.remove(alive, false).await.unwrap();
    assert!(matches!(engine.remove(alive, false).await, Err(Error::Refused(Refusal::NotFound(_)))));
    assert_eq!(std::fs::read_dir(bench.jobs()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submit_is_idempotent() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = engine.desk().new_id().unwrap();
    let ask = || engine.submit(id, bench.script("echo once >> ran"), super::env(), "ann");
    let (one, two) = tokio::join!(ask(), ask());
    assert_eq!((one.unwrap().id, two.unwrap().id), (id, id));
    end_of(&engine, id).await;
    assert_eq!(ask().await.unwrap().id, id, "even for an ended job");
    let other = engine.submit(id, bench.script("exit 1"), super::env(), "ann").await;
    assert!(matches!(other, Err(Error::Refused(Refusal::IdTaken(_)))));
    assert_eq!(std::fs::read_to_string(bench.cwd().join("ran")).unwrap(), "once\n");
}
