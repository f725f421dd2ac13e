//! The engine on a real journal, with real keepers.

use std::sync::Arc;
use std::time::Instant;

use lastword_core::decide::cancel::Cancel;
use lastword_core::job::Phase;
use lastword_core::outcome::{Asked, Outcome};
use lastword_core::receipt::Exit;
use lastword_core::spec::{Ladder, Spec};
use lastword_core::{HostId, Job, JobId, OwnerId};
use lastword_engine::{Engine, Env, Options, trees::Kept};
use lastword_store::sqlite::Sqlite;

use crate::common::{PATIENCE, start_nursery};

/// A daemon's worth of engine, on a journal and a place of its own.
struct Bench {
    folder: tempfile::TempDir,
    journal: Sqlite,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let journal = Sqlite::open(&folder.path().join("journal")).unwrap();
        Bench { folder, journal }
    }

    fn start(&self) -> Engine<Sqlite> {
        let env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        let place = self.folder.path().join("attempts");
        std::fs::create_dir_all(&place).unwrap();
        let options = Options {
            owner: OwnerId(Arc::from("daemon")),
            host: HostId(Arc::from("here")),
            queues: vec![("default".to_owned(), Some(4))],
            lease_ms: 30_000,
            look_ms: 1_000,
        };
        Engine::start(self.journal.clone(), Kept::new(start_nursery(), place, env), options)
    }

    fn script(&self, script: &str) -> Spec {
        let cwd = self.folder.path().display().to_string();
        Spec { ladder: Ladder { interrupt_ms: 0, term_ms: 200 }, ..Spec::command(["sh", "-c", script], cwd) }
    }
}

async fn until(engine: &Engine<Sqlite>, id: JobId, is_so: impl Fn(&Job) -> bool) -> Job {
    let begin = Instant::now();
    loop {
        let job = engine.job(id).await.unwrap().value;
        if is_so(&job) {
            return job;
        }
        assert!(begin.elapsed() < PATIENCE, "it is still {:?}", job.phase);
        tokio::task::yield_now().await;
    }
}

fn outcome(job: &Job) -> (Outcome, Option<Exit>) {
    let receipt = job.attempts.last().and_then(|attempt| attempt.end.as_ref()).map(|end| end.receipt.exit);
    (job.last_word().expect("it ended").outcome, receipt.flatten())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_to_its_last_word() {
    let bench = Bench::new();
    let engine = bench.start();
    for (script, code) in [("exit 0", 0), ("exit 7", 7)] {
        let id = engine.new_id().unwrap();
        engine.submit(id, bench.script(script), Env::default(), "ann").await.unwrap();
        let job = until(&engine, id, Job::is_ended).await;
        assert_eq!(outcome(&job).1, Some(Exit::Code(code)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c37_another_engine_takes_over_and_a_cancel_ends_the_tree() {
    let bench = Bench::new();
    let engine = bench.start();
    let id = engine.new_id().unwrap();
    engine.submit(id, bench.script("sleep 100"), Env::default(), "ann").await.unwrap();
    let job = until(&engine, id, |job| matches!(job.phase, Phase::Running)).await;
    let pid = job.open_attempt().unwrap().tree.as_ref().unwrap().pid;
    drop(engine);
    let engine = bench.start();
    let wish = Cancel { by: "ann".to_owned(), asked: Asked::User, force: false };
    engine.cancel(id, &wish).await.unwrap();
    let job = until(&engine, id, Job::is_ended).await;
    assert!(matches!(outcome(&job).0, Outcome::Cancelled { .. }));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}
