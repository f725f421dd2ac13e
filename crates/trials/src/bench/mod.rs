//! `bench keeper`: what it costs to be durable, captured and contained, beside programs that are not, in one run.
//!
//! - [`rates`]: `true` per second, ours and the others'.
//! - [`rivals`]: task-spooler and pueue, fetched if they are not there.
//! - [`latency`]: from the launch to the leader's first instruction, from the cancel to the proof.
//! - [`cost`]: CPU, flushes and memory.
//! - [`folders`], [`command`], [`timed`]: what all of them use.
//!
//! `bench run` does the same with the whole product: [`run`](mod@run). `bench link` has a part with real servers and workers: [`link`]. With `--beside`, `bench store`, `keeper` and `run` compare this build
//! with another one: [`beside`].

mod beside;
mod command;
mod cost;
mod folders;
mod latency;
mod link;
mod rates;
mod rivals;
mod run;
mod timed;

use std::path::PathBuf;

use lastword_core::receipt::Level;

use crate::args::Args;
use crate::place::Programs;
use folders::Folders;

/// Runs `bench keeper [--rounds N] [--short] [--in FOLDER]`, or `bench run` with the same words; or one of them beside another build.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let rest = match words {
        [what, rest @ ..] if rest.contains(&"--beside") => return compare(what, rest),
        ["keeper", rest @ ..] => rest,
        ["run", rest @ ..] => return run::run(rest),
        ["link", rest @ ..] => return link::run(rest),
        _ => {
            return Err(
                "bench keeper|run [--rounds N] [--short] [--in FOLDER] [--beside EXECUTABLE]".to_owned()
            );
        }
    };
    let args = Args::new(rest, &["--rounds", "--in"], &["--short"])?;
    let short = args.has("--short");
    let rounds: usize = args.value("--rounds", if short { 1 } else { 5 })?;
    let folder = args.text("--in").map_or_else(std::env::temp_dir, PathBuf::from);
    let (keeper, folders) = (Programs::beside()?.lastword, Folders::within(&folder)?);
    println!("bench keeper in {}: {rounds} rounds, interleaved; medians", folder.display());
    let mut flush = latency::flushes(&folders, if short { 50 } else { 300 })?;
    flush.print();
    let mut reached = rates::compare(&keeper, &folders, rounds, short)?;
    reached &= cost::memory(&keeper, &folders)?;
    let syncs = cost::syncs()?;
    latency::start(&keeper, &folders, if short { 40 } else { 300 })?;
    reached &= latency::cancel(&keeper, &folders, if short { 40 } else { 300 }, syncs, &flush)?;
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise.
    Ok(true)
}

/// Runs `bench store|keeper|run --beside EXECUTABLE [--rounds N] [--short] [--in FOLDER]`. For `store` it is an executable of the proof, which has
/// the measurements; else one of the product.
fn compare(what: &str, words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--beside", "--rounds", "--in"], &["--short"])?;
    let rounds: usize = args.value("--rounds", 7)?;
    let other = args.text("--beside").map(PathBuf::from).ok_or("--beside EXECUTABLE")?;
    let (programs, short) = (Programs::beside()?, args.has("--short"));
    let folders = Folders::within(&args.text("--in").map_or_else(std::env::temp_dir, PathBuf::from))?;
    match what {
        "keeper" => {
            beside::compare(rounds, &other, &programs.lastword, |path| beside::keeper(path, &folders, short))
        }
        "run" => {
            beside::compare(rounds, &other, &programs.lastword, |path| run::figures(path, &folders, short))
        }
        "store" => {
            let own = programs.trials.with_file_name("lastword-proof");
            let compare =
                |engine| beside::compare(rounds, &other, &own, |proof| beside::store(proof, engine));
            Ok(compare("sqlite")? & compare("postgres")?)
        }
        _ => Err(format!("no such bench: {what}")),
    }
}

/// Runs one part by itself, to be watched from outside: `bench-part jobs N`, `bench-part cancels N`.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [what, count] = words else { return Err("bench-part jobs|cancels N".to_owned()) };
    let count: usize = count.parse().map_err(|_| "not a number")?;
    let (keeper, folders) = (Programs::beside()?.lastword, Folders::within(&std::env::temp_dir())?);
    match *what {
        "jobs" => rates::ours(&keeper, &folders, Level::Cgroup, 2, count).map(|_| true),
        "cancels" => latency::cancel_p50(&keeper, &folders, count).map(|_| true),
        _ => Err(format!("no such part: {what}")),
    }
}
