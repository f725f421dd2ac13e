//! The engine on a real journal, with real keepers.

mod down;
mod elsewhere;
pub(crate) mod faulty;
mod fleet;
mod input;
mod keeping;
mod leases;
mod limits;
mod long_logs;
mod runs;
mod slots;
mod trouble;
mod truth;
mod waiting;
mod worktrees;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lastword_core::decide::cancel::Cancel;
use lastword_core::job::Phase;
use lastword_core::outcome::{Asked, Outcome};
use lastword_core::receipt::{Exit, Tree};
use lastword_core::spec::{Ladder, Spec};
use lastword_core::{AttemptNo, HostId, Job, JobId, OwnerId};
use lastword_engine::LocalHost;
use lastword_engine::{Begin, Engine, Env, Options, Part, Stream, Until};
use lastword_git::Worktrees;
use lastword_proc::Identity;
use lastword_store::Store;
use lastword_store::sqlite::Sqlite;

use crate::common::{PATIENCE, start_nursery};

/// Longer than any test.
pub(crate) const HOUR_MS: u64 = 3_600_000;

/// A journal and a folder for engines.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) journal: Sqlite,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let journal = Sqlite::open(&folder.path().join("journal")).unwrap();
        Bench { folder, journal }
    }

    /// Starts an engine without a limit on jobs.
    pub(crate) fn start(&self) -> Engine<Sqlite> {
        self.start_with(|_| {})
    }

    pub(crate) fn start_with(&self, change: impl FnOnce(&mut Options)) -> Engine<Sqlite> {
        self.start_on(self.journal.clone(), change)
    }

    /// Starts an engine that checks nothing periodically: a hint that it loses stays lost.
    pub(crate) fn start_without_checks(&self) -> Engine<Sqlite> {
        self.start_with(|options| (options.sweep_ms, options.lease_ms) = (HOUR_MS, 3 * HOUR_MS))
    }

    /// Starts an engine on another journal.
    pub(crate) fn start_on<J: Store>(&self, journal: J, change: impl FnOnce(&mut Options)) -> Engine<J> {
        let mut options = Options::new(OwnerId(Arc::from("daemon")), HostId(Arc::from("here")));
        change(&mut options);
        let host = LocalHost::new(self.jobs(), || Ok(start_nursery())).unwrap();
        Engine::start(journal, host, options)
    }

    /// Starts an engine that keeps worktrees.
    pub(crate) fn start_in<J: Store>(&self, journal: J, worktrees: Worktrees) -> Engine<J> {
        let options = Options::new(OwnerId(Arc::from("daemon")), HostId(Arc::from("here")));
        let host = LocalHost::new(self.jobs(), || Ok(start_nursery())).unwrap();
        Engine::start(journal, host.with_worktrees(worktrees), options)
    }

    /// Returns the folder of the jobs' folders.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.folder.path().join("jobs")
    }

    /// Returns the folder in which commands run.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn script(&self, script: &str) -> Spec {
        Spec {
            ladder: Ladder { interrupt_ms: 0, term_ms: 200 },
            ..Spec::command(["sh", "-c", script], self.cwd().display().to_string())
        }
    }
}

/// Returns an environment in which a shell finds its programs.
pub(crate) fn env() -> Env {
    let path: OsString = "/usr/local/bin:/usr/bin:/bin".into();
    Env::new(vec![("PATH".into(), path)])
}

pub(crate) fn wish(force: bool) -> Cancel {
    Cancel { by: "ann".to_owned(), asked: Asked::User, force }
}

/// Submits a job.
pub(crate) async fn run<J: Store>(engine: &Engine<J>, spec: Spec) -> JobId {
    let id = engine.desk().new_id().unwrap();
    engine.submit(id, spec, env(), "ann").await.unwrap();
    id
}

/// Waits until a job has ended.
pub(crate) async fn end_of<J: Store>(engine: &Engine<J>, id: JobId) -> Job {
    let job = engine.wait(id, Until::Ended, PATIENCE).await.unwrap().value;
    assert!(job.is_ended(), "it is still {:?}", job.phase);
    job
}

/// Waits until a job is running, and returns its leader.
pub(crate) async fn leader_of<J: Store>(engine: &Engine<J>, id: JobId) -> Identity {
    let job = until(engine, id, |job| matches!(job.phase, Phase::Running)).await;
    // A read waits until its keeper was reached, so a keeper that is stopped from now on is being watched.
    engine.job(id).await.unwrap();
    leader(&job)
}

/// Waits until a job has had a tree, and returns its leader. Unlike [`leader_of`], it can be used if a limit may end the job at any moment.
pub(crate) async fn first_leader_of<J: Store>(engine: &Engine<J>, id: JobId) -> Identity {
    let tree = |job: &Job| job.attempts.first().and_then(|attempt| attempt.tree.clone());
    let job = until(engine, id, |job| tree(job).is_some()).await;
    // As in `leader_of`.
    engine.job(id).await.unwrap();
    identity(&tree(&job).expect("it has one"))
}

/// Returns the leader of a running tree.
pub(crate) fn leader(job: &Job) -> Identity {
    identity(job.open_attempt().and_then(|attempt| attempt.tree.as_ref()).expect("it runs"))
}

fn identity(tree: &Tree) -> Identity {
    Identity { boot: tree.boot.clone(), pid: tree.pid, start_ticks: tree.start_ticks, inode: None }
}

/// Waits until a condition on a job holds.
pub(crate) async fn until<J: Store>(engine: &Engine<J>, id: JobId, is_so: impl Fn(&Job) -> bool) -> Job {
    let begin = Instant::now();
    loop {
        let job = engine.job(id).await.unwrap().value;
        if is_so(&job) {
            return job;
        }
        let left = PATIENCE.saturating_sub(begin.elapsed());
        assert!(!left.is_zero(), "it is still {:?}", job.phase);
        engine.wait(id, Until::After(job.version), left).await.unwrap();
    }
}

/// Waits until a job has written a text, and returns its output.
pub(crate) async fn output_of<J: Store>(engine: &Engine<J>, id: JobId, text: &str) -> String {
    let begin = Instant::now();
    loop {
        let written = read(engine, id, AttemptNo(1), Stream::Stdout).await;
        if written.contains(text) {
            return written;
        }
        assert!(begin.elapsed() < PATIENCE, "it has only written {written:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the output of a job so far.
pub(crate) async fn read<J: Store>(
    engine: &Engine<J>,
    id: JobId,
    attempt: AttemptNo,
    stream: Stream,
) -> String {
    let job = engine.desk().folded(id).await.unwrap().job.clone();
    let part = Part { from: Begin::At(0), limit: 1 << 16, wait: Duration::ZERO };
    let Ok(piece) = engine.read(&job, attempt, stream, part).await else { return String::new() };
    String::from_utf8_lossy(&piece.bytes).into_owned()
}

pub(crate) fn outcome(job: &Job) -> (Outcome, Option<Exit>) {
    let receipt = job.attempts.last().and_then(|attempt| attempt.end.as_ref()).map(|end| end.receipt.exit);
    (job.last_word().expect("it ended").outcome, receipt.flatten())
}
