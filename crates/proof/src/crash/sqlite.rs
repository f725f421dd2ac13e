//! `crash sqlite`: the process that writes SQLite is killed in the middle of its appends, again and again.
#![expect(clippy::print_stdout, reason = "the result of a verb")]

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lastword_store::sqlite::Sqlite;

use super::appender::{stdout, work};
use super::child::Writing;
use super::history::{Acked, judge};
use super::stored::stored;
use crate::args::Args;
use crate::random::Random;

/// Appenders in one process: more than one, so that batches hold appends of several.
const WORKERS: u64 = 6;

/// Rounds on one file before a fresh one: a file lives through many crashes, but its check stays short.
const ROUNDS_PER_FILE: u64 = 25;

/// The longest a writer lives after its first acknowledgement. A batch takes well under a millisecond, so every
/// moment of one is hit.
const LIFE_MAX_US: u64 = 40_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Kills and checks, `--rounds` times.
#[expect(clippy::disallowed_methods, reason = "the moment of the kill is drawn at random")]
pub fn crash(args: &Args<'_>) -> Outcome<()> {
    let rounds: u64 = args.value("--rounds", 200)?;
    let mut random = Random::new(args.value("--seed", 1)?);
    let (mut acked_in_all, mut stored_in_all, mut round) = (0, 0, 0);
    while round < rounds {
        let folder = tempfile::tempdir()?;
        let journal = folder.path().join("journal");
        let mut acked = Vec::new();
        for run in round..rounds.min(round + ROUNDS_PER_FILE) {
            let writing = start(&journal, run)?;
            writing.wait_beyond(0)?;
            thread::sleep(Duration::from_micros(random.below(LIFE_MAX_US)));
            acked.extend(writing.kill()?);
            let stored = verify(&journal, &acked).inspect_err(|_| println!("round {run}"))?;
            stored_in_all = stored.max(stored_in_all);
        }
        acked_in_all += acked.len();
        round += ROUNDS_PER_FILE;
    }
    println!(
        "crash sqlite: {rounds} kills, {acked_in_all} acknowledged appends, largest log {stored_in_all} events"
    );
    println!("none lost, doubled or torn; no gap; every row agrees with its events; integrity ok");
    Ok(())
}

/// Starts the process that writes.
pub fn start(journal: &Path, run: u64) -> Outcome<Writing> {
    let journal = journal.to_str().ok_or("a folder whose name is not text")?;
    let run = run.to_string();
    let words = ["crash", "sqlite-child", "--journal", journal, "--run", &run].map(str::to_owned);
    Ok(Writing::start(&words)?)
}

/// What the process does that is killed.
pub fn child(args: &Args<'_>) -> Outcome<()> {
    let folder: PathBuf = args.text("--journal").ok_or("--journal is missing")?.into();
    let run = args.value("--run", 0)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let journal = Sqlite::open(&folder)?;
        let acks = stdout();
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| tokio::spawn(work(journal.clone(), run, worker, acks.clone())))
            .collect();
        for worker in workers {
            worker.await??;
        }
        Ok(())
    })
}

/// Opens what was left and compares it with what was acknowledged. Returns the number of events.
pub fn verify(folder: &Path, acked: &[Acked]) -> Outcome<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let journal = Sqlite::open(folder)?;
        journal.check().await?;
        let stored = stored(&journal).await?;
        judge(acked, &stored)?;
        Ok(stored.values().map(|log| log.events.len()).sum())
    })
}
