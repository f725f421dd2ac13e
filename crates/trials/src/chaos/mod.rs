//! `chaos`: the whole product under load, while everything that can happen to it happens. Judged while it runs and at its end.
//!
//! - [`members`]: the processes of the product, and where its journal is.
//! - [`plan`]: what each job is, from the seed. [`canary`]: jobs whose every line is known.
//! - [`ground`]: a small file system of its own. [`wrong_clock`]: a clock that jumps for the product alone.
//! - [`ask`]: one request. [`conduct`]: one job. [`dependents`]: jobs that wait for another one. [`afterwards`]: what is done to ended jobs.
//! - [`faults`]: what happens to the product. [`watch`]: the observers. [`reading`]: all that the product says about a job.
//! - [`evidence`], [`judge`]: what is known, and what is made of it. [`journal`]: the log, read past the product.
//! - [`trial`]: one run, from its first job to the judgement. [`report`]: the figures. [`sabotage`]: real runs in which something is wrong on purpose.

mod afterwards;
mod ask;
mod canary;
mod conduct;
mod dependents;
mod evidence;
mod faults;
mod ground;
mod journal;
mod judge;
mod members;
mod plan;
mod reading;
mod report;
mod sabotage;
mod stage;
mod trial;
mod watch;
mod wrong_clock;

use std::time::Duration;

use crate::args::Args;
use crate::verdict::{self, verdict};
use members::Store;
use plan::Mix;
use trial::{Shape, hold};

pub(crate) use canary::sing;

const USAGE: &str = "chaos [--store link] [--minutes N | --seconds N] [--seed S] [--rate JOBS_PER_SECOND] [--bug NAME] [--bugs]

The whole product on a small file system of its own: canaries and adversaries at 2 jobs a second by default, half of them asked
for at the command line, half through the API. More than half wait for another job, most of them submitted while that one ends or
is removed; and rows of short ones are submitted one after the other until that one has ended. A quarter each has its limit changed, is run again, is removed; ended jobs are pruned, and keys are used twice.
The daemon is killed -9 every 2 to 10 s, one keeper in a hundred too, a fifth of the jobs are cancelled, the disk is full for a
while, the journal cannot be written, and the clock jumps by hours. A quiet leg follows, then the judgement.

  --store link  a server with its journal in PostgreSQL, and a worker that runs the jobs: both and the database are killed
  --minutes N   how long the faults last, 3 if nothing is said; --seconds N for a short one
  --seed S      which jobs and which faults; the same seed gives the same ones
  --rate R      jobs a second
  --bug NAME    with a seeded bug, which must be noticed; the run is over then
  --bugs        breaks one thing at a time instead, and expects the judges to say so";

/// Seeded bugs that a run must notice.
const SEEDED: [&str; 1] = ["wait-unchecked"];

/// Runs `chaos`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let args =
        Args::new(words, &["--store", "--minutes", "--seconds", "--seed", "--rate", "--bug"], &["--bugs"])?;
    let bug = verdict::bug(&args, &SEEDED)?;
    let store = Store::of(args.text("--store"))?;
    if args.has("--bugs") {
        return sabotage::run(store);
    }
    let minutes: f64 = args.value("--minutes", 3.0)?;
    let seconds: f64 = args.value("--seconds", minutes * 60.0)?;
    let seed: u64 = args.value("--seed", 1)?;
    let rate: f64 = args.value("--rate", 2.0)?;
    if !(seconds > 0.0 && rate > 0.0) {
        return Err("a run takes some time and has some jobs".to_owned());
    }
    // A command that waits for a job which a bug keeps from ending would only take long.
    let mix = Mix { waits: bug.is_none(), ..Mix::of(seed) };
    let shape = Shape::of(store, Duration::from_secs_f64(seconds), rate, mix);
    let shape = Shape { bug: SEEDED.into_iter().find(|seeded| Some(*seeded) == bug), ..shape };
    println!(
        "chaos{}: seed {seed}, {seconds:.0} s with faults, {:.0} s without, {rate} jobs/s",
        store.words(),
        shape.quiet.as_secs_f64()
    );
    let (stage, run, violations) = hold(&shape, |_| {}, |_| {})?;
    if bug.is_some() {
        report::print(&stage, &run);
        // What a judge of jobs found, before the run was cut off.
        let found = stage.caught().map_or(Ok(()), |(at_s, what)| Err(format!("after {at_s:.0} s: {what}")));
        return Ok(verdict(bug, found));
    }
    report::print(&stage, &run);
    for violation in &violations {
        eprintln!("VIOLATION: {}: {}", violation.judge, violation.what);
    }
    match violations.is_empty() {
        true => println!("every promise held"),
        false => eprintln!(
            "{} promises were broken; again: cargo xtask chaos{} --seconds {seconds:.0} --seed {seed} --rate {rate}",
            violations.len(),
            store.words()
        ),
    }
    Ok(violations.is_empty())
}
