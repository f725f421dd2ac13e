//! `bench store sqlite`: our journal beside a C loop over SQLite with the same statements, rows and batches, and what
//! an append costs once the store has seen many.
//!
//! Our side goes through the async trait. Twice as many callers as a batch holds: while one half is being written,
//! the other comes back with the next, as in a busy daemon. What they append was decided before the clock starts,
//! since the bare loop decides nothing either.
#![expect(clippy::print_stdout, reason = "the result of a verb")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::life::Place;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Fact, HostId, Incarnation, Job, JobId, OwnerId};
use lastword_store::sqlite::{Options, Sqlite};
use lastword_store::{Claim, Journal, Renew, Source};
use tempfile::TempDir;

use super::table::median;
use crate::args::Args;
use crate::jobs;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The bare loop. Compiled when the bench runs, so that building the project needs no C library.
const BARE: &str = include_str!("../../bench/bare_sqlite.c");

/// Jobs that single appends go to, as in the bare loop.
const JOBS: u64 = 1_000;

/// Ids begin after those of the bare loop's filling.
const FIRST: u64 = 1 << 32;

/// What is measured: batch, single appends per round, lives per round. Each takes a fraction of a second.
const SIZES: [(usize, usize, usize); 3] = [(1, 2_000, 400), (10, 10_000, 2_000), (100, 40_000, 8_000)];

/// One comparison.
struct Figure {
    name: String,
    ours: f64,
    bare: f64,
    ratio: f64,
    goal: String,
}

/// Measures and prints.
pub fn bench(args: &Args<'_>) -> Outcome<()> {
    let rounds: usize = args.value("--rounds", 5)?;
    let stored: u64 = args.value("--stored", 10_000_000)?;
    let tools = Tools::make()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut figures = Vec::new();
    let only: usize = args.value("--batch", 0)?;
    for (batch, appends, lives) in SIZES.into_iter().filter(|(batch, ..)| only == 0 || *batch == only) {
        for (mode, count) in [("append", appends), ("life", lives)] {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let store = Store::make()?;
                ours.push(count as f64 / runtime.block_on(store.ours(mode, batch, count))?);
                let store = Store::make()?;
                bare.push(count as f64 / tools.bare(&store, mode, batch as u64, count as u64)?);
            }
            figures.push(compare(format!("{mode} {batch}"), ours, bare, "≥0.85".to_owned()));
        }
    }
    if stored > 0 {
        figures.push(grown(&tools, &runtime, stored, rounds)?);
    }
    if args.has("--json") {
        print_json(&figures)
    } else {
        print_table(&figures, rounds)
    }
    Ok(())
}

fn compare(name: String, mut ours: Vec<f64>, mut bare: Vec<f64>, goal: String) -> Figure {
    let mut ratios: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
    Figure { name, ours: median(&mut ours), bare: median(&mut bare), ratio: median(&mut ratios), goal }
}

/// Compares the cost of an append in a store that has seen much with that in one that has seen little.
fn grown(tools: &Tools, runtime: &tokio::runtime::Runtime, stored: u64, rounds: usize) -> Outcome<Figure> {
    const SMALL: u64 = 10_000;
    const BATCH: usize = 10;
    const APPENDS: usize = 10_000;
    let (large, small) = (Store::make()?, Store::make()?);
    tools.bare(&large, "fill", stored, 0)?;
    tools.bare(&small, "fill", SMALL, 0)?;
    let (mut of_large, mut of_small) = (Vec::new(), Vec::new());
    // The first round warms both up and does not count.
    for round in 0..=rounds {
        let seconds_large = runtime.block_on(large.appends(BATCH, APPENDS, round as u64))?;
        let seconds_small = runtime.block_on(small.appends(BATCH, APPENDS, round as u64))?;
        if round > 0 {
            of_large.push(seconds_large / APPENDS as f64 * 1e6);
            of_small.push(seconds_small / APPENDS as f64 * 1e6);
        }
    }
    let name = format!("µs per append, {stored} / {SMALL} stored");
    Ok(compare(name, of_large, of_small, "≤1.2".to_owned()))
}

fn print_table(figures: &[Figure], rounds: usize) {
    println!("SQLite, medians of {rounds} rounds in turn; ratio is the median of the rounds' ratios");
    println!("{:<44} {:>10} {:>10} {:>6}  goal", "", "ours/s", "bare/s", "ratio");
    for Figure { name, ours, bare, ratio, goal } in figures {
        println!("{name:<44} {ours:>10.1} {bare:>10.1} {ratio:>6.2}  {goal}");
    }
}

fn print_json(figures: &[Figure]) {
    let figure = |f: &Figure| {
        let Figure { name, ours, bare, ratio, goal } = f;
        format!(r#"{{"name":"{name}","ours":{ours:.2},"bare":{bare:.2},"ratio":{ratio:.3},"goal":"{goal}"}}"#)
    };
    println!("[{}]", figures.iter().map(figure).collect::<Vec<_>>().join(","));
}

/// The compiled bare loop and the rows it writes.
struct Tools {
    folder: TempDir,
}

impl Tools {
    fn make() -> Outcome<Tools> {
        let tools = Tools { folder: tempfile::tempdir()? };
        let source = tools.path("bare_sqlite.c");
        fs::write(&source, BARE)?;
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg("-o").arg(tools.path("bare")).arg(&source).arg("-lsqlite3");
        if !compiler.status()?.success() {
            return Err("the bare loop does not compile: install a C compiler and libsqlite3-dev".into());
        }
        fs::write(tools.path("rows"), rows()?)?;
        Ok(tools)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the bare loop and returns the seconds it took.
    fn bare(&self, store: &Store, mode: &str, batch: u64, count: u64) -> Outcome<f64> {
        let mut bare = Command::new(self.path("bare"));
        bare.arg(store.journal().join("journal.db")).arg(self.path("rows"));
        let output = bare.args([mode, &batch.to_string(), &count.to_string()]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }
}

fn owner() -> OwnerId {
    OwnerId("bench".into())
}

/// Returns the life of a job: its submission, its claim by `by`, and what its owner appends.
fn life(id: JobId, by: &Claimant) -> Outcome<(Append, Append, Vec<Append>)> {
    let facts = vec![jobs::submitted(jobs::spec("q"))];
    let (submit, queued) = Append::new(&Job::unborn(id), None, jobs::append_id(), jobs::NOW, facts)?;
    let facts = claim::decide(&queued, by, Lease::Live, jobs::NOW)?;
    let (claim, mut job) = Append::new(&queued, None, jobs::append_id(), jobs::NOW, facts)?;
    let fence = job.holder.clone().ok_or("a claim has a holder")?.fence;
    let mut owned = Vec::new();
    // A plain command spends nothing.
    let spends_not = |facts: &Vec<Fact>| !matches!(facts[..], [Fact::Spent(_), ..]);
    for facts in jobs::life(&job).into_iter().filter(spends_not) {
        let (append, next) = jobs::append(&job, Some(&fence), facts);
        owned.push(append);
        job = next;
    }
    Ok((submit, claim, owned))
}

fn claimant(incarnation: Incarnation) -> Claimant {
    Claimant { owner: owner(), incarnation, host: HostId("here".into()), boot: None }
}

/// Writes down what each step of a life stores, for the bare loop.
fn rows() -> Outcome<String> {
    let by = claimant(Incarnation { instance: 0, number: 1 });
    let (submit, claim, owned) = life(jobs::id(1), &by)?;
    let queued = Job::fold(submit.job, &submit.events)?;
    let change = jobs::append(&queued, None, vec![jobs::limit_changed(7)]).0;
    let mut text = String::new();
    for (step, append) in [&submit, &claim].into_iter().chain(&owned).chain([&change]).enumerate() {
        for event in &append.events {
            let fact = event.fact.encode();
            writeln!(text, "event\t{step}\t{}\t{}", fact.kind, fact.body)?;
        }
        let row = &append.row;
        let due = row.due.map_or("", |_| "due");
        let owner = row.holder.as_ref().map_or("", |fence| &fence.owner.0);
        let outcome =
            row.outcome.map(|outcome| serde_json::to_string(&outcome)).transpose()?.unwrap_or_default();
        let summary = serde_json::to_string(&row.summary)?;
        writeln!(
            text,
            "job\t{step}\t{}\t{}\t{due}\t{owner}\t{outcome}\t{summary}",
            row.phase.as_str(),
            row.group
        )?;
    }
    Ok(text)
}

/// A journal of its own in a temporary folder.
struct Store {
    folder: TempDir,
}

impl Store {
    fn make() -> Outcome<Store> {
        let store = Store { folder: tempfile::tempdir()? };
        drop(Sqlite::open(&store.journal())?);
        Ok(store)
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    async fn ours(&self, mode: &str, batch: usize, count: usize) -> Outcome<f64> {
        if mode == "append" { self.appends(batch, count, 0).await } else { self.lives(batch, count).await }
    }

    /// Appends `count` single events to waiting jobs and returns the seconds that took.
    async fn appends(&self, batch: usize, count: usize, round: u64) -> Outcome<f64> {
        let journal = open(&self.journal(), batch)?;
        let callers = 2 * batch;
        let mut work: Vec<Vec<Append>> = vec![Vec::new(); callers];
        for n in 0..JOBS {
            let facts = vec![jobs::submitted(jobs::spec("q"))];
            let unborn = Job::unborn(jobs::id(FIRST + round * JOBS + n));
            let (append, mut job) = Append::new(&unborn, None, jobs::append_id(), jobs::NOW, facts)?;
            journal.append(append).await?;
            let caller = n as usize % callers;
            for _ in 0..count.div_ceil(JOBS as usize) {
                let (append, next) = jobs::append(&job, None, vec![jobs::limit_changed(7)]);
                work[caller].push(append);
                job = next;
            }
        }
        let began = Instant::now();
        let callers: Vec<_> = work
            .into_iter()
            .map(|work| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    for append in work {
                        journal.append(append).await?;
                    }
                    Ok::<(), lastword_store::Error>(())
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// Runs `count` jobs from submission to last word and returns the seconds that took.
    async fn lives(&self, batch: usize, count: usize) -> Outcome<f64> {
        let journal = open(&self.journal(), batch)?;
        let renew =
            Renew { owner: owner(), place: Place::new("here", "boot"), incarnation: None, lease_ms: 1 << 40 };
        let by = claimant(journal.renew(renew).await?.incarnation);
        let (mut submissions, mut owned) = (Vec::new(), HashMap::new());
        for n in 0..count as u64 {
            let (submit, _, appends) = life(jobs::id(n), &by)?;
            owned.insert(submit.job, appends);
            submissions.push(submit);
        }
        let (submissions, owned) = (Arc::new(submissions), Arc::new(owned));
        let next = Arc::new(AtomicUsize::new(0));
        let began = Instant::now();
        let callers: Vec<_> = (0..2 * batch)
            .map(|_| {
                let caller = Caller {
                    journal: journal.clone(),
                    by: by.clone(),
                    submissions: Arc::clone(&submissions),
                    owned: Arc::clone(&owned),
                    next: Arc::clone(&next),
                };
                tokio::spawn(caller.run())
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

/// One of many that run lives at once.
struct Caller {
    journal: Sqlite,
    by: Claimant,
    submissions: Arc<Vec<Append>>,
    owned: Arc<HashMap<JobId, Vec<Append>>>,
    next: Arc<AtomicUsize>,
}

impl Caller {
    async fn run(self) -> lastword_store::Result<()> {
        let Caller { journal, by, submissions, owned, next } = self;
        while let Some(submit) = submissions.get(next.fetch_add(1, Ordering::Relaxed)) {
            journal.append(submit.clone()).await?;
            let from = Source::Ready { group: "q".to_owned(), slots: None };
            let claim =
                Claim { by: by.clone(), from, labels: WorkerLabels::default(), at_most: 1, now: jobs::NOW };
            for claimed in journal.claim(claim).await? {
                for append in &owned[&claimed.job] {
                    journal.append(append.clone()).await?;
                }
            }
        }
        Ok(())
    }
}

fn open(folder: &Path, batch: usize) -> Outcome<Sqlite> {
    Ok(Sqlite::open_with(folder, &Options { batch_max: batch })?)
}
