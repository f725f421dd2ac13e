//! `bench link`, the part with real processes: a server with its database, and workers that are connected to it.
//!
//! - [`idle`]: what workers that have nothing to do cost the database.
//! - [`cancel`]: from a cancel at the server to the proof, beside a cancel where the job runs.
//! - [`takeover`]: from the death of a worker to the last word on its jobs.
//! - [`members`]: the server and its workers.

mod cancel;
mod idle;
mod members;
mod takeover;

use std::time::Duration;

use crate::args::Args;

/// Runs every part, or the one that `--only` names.
pub(super) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--only", "--rounds", "--workers", "--seconds"], &["--short"])?;
    let short = args.has("--short");
    let wants = |name: &str| args.text("--only").is_none_or(|only| only == name);
    let rounds: usize = args.value("--rounds", if short { 1 } else { 5 })?;
    let workers: usize = args.value("--workers", if short { 5 } else { 50 })?;
    let seconds: u64 = args.value("--seconds", if short { 30 } else { 180 })?;
    let mut reached = true;
    if wants("idle") {
        reached &= idle::measure(workers, Duration::from_secs(seconds))?;
    }
    if wants("cancel") {
        reached &= cancel::measure(rounds, if short { 20 } else { 100 })?;
    }
    if wants("takeover") {
        reached &= takeover::measure(rounds, if short { 3 } else { 20 })?;
    }
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise.
    Ok(true)
}
