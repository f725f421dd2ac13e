//! `bench run`: the whole product beside programs that do less, in one run: what a user waits for, and what it costs.
//!
//! - [`rates`]: `true` per second, through the API and through the command line.
//! - [`calls`]: one thing at a time: from the command to the job's first instruction, a look at a job, a forced end.
//! - [`build`]: one build alone, for the comparison of two.
//! - [`memory`]: what the servers hold when they are idle.

mod build;
mod calls;
mod memory;
pub(super) mod product;
mod rates;

use std::path::PathBuf;

use super::cost::Cpu;
use super::folders::Folders;
use super::latency;
use super::rivals::Rivals;
use crate::args::Args;
use product::Ours;

const USAGE: &str = "bench run [--rounds N] [--short] [--in FOLDER]

Through the whole product, beside a bare spawn, xargs, task-spooler and pueue, in turn: jobs a second two and eight at once, from
the command to the job's first instruction, a look at one job, a forced end until nothing is left, memory of an idle server.

  --rounds N    rounds of the rates, 5 if nothing is said; medians are shown
  --short       one small round, and pueue only if it is there
  --in FOLDER   where to work: what a flush costs, its file system decides";

pub(super) use build::figures;

/// Runs `bench run`.
pub(super) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let args = Args::new(words, &["--rounds", "--in"], &["--short"])?;
    let short = args.has("--short");
    let rounds: usize = args.value("--rounds", if short { 1 } else { 5 })?;
    let folder = args.text("--in").map_or_else(std::env::temp_dir, PathBuf::from);
    let folders = Folders::within(&folder)?;
    println!("bench run in {}: {rounds} rounds, interleaved; medians", folder.display());
    latency::flushes(&folders, if short { 50 } else { 200 })?.print();
    let rivals = Rivals::find(!short);
    let mut reached = memory::idle(&folders, &rivals, if short { 40 } else { 500 })?;
    // Before its daemon: what that starts counts, too.
    let cpu = Cpu::here();
    let ours = Ours::start(&folders)?;
    reached &= rates::compare(&ours, &folders, &rivals, &cpu, rounds, short)?;
    let count = if short { 10 } else { 100 };
    reached &= calls::start(&ours, &folders, &rivals, count)?;
    calls::show(&ours, &folders, &rivals, count)?;
    calls::cancel(&ours, &folders, &rivals, count)?;
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise.
    Ok(true)
}
