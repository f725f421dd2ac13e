//! `bench keeper`: what it costs to be durable, captured and contained, beside programs that are not, in one run.
//!
//! - [`rates`]: `true` per second, ours and the others'.
//! - [`rivals`]: task-spooler and pueue, fetched if they are not there.
//! - [`latency`]: from the launch to the leader's first instruction, from the cancel to the proof.
//! - [`cost`]: CPU, flushes and memory.
//!
//! `bench run` does the same with the whole product: [`run`](mod@run). With `--beside`, `bench store`, `keeper` and `run` compare this build
//! with another one: [`beside`].

mod beside;
mod cost;
mod latency;
mod rates;
mod rivals;
mod run;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lastword_core::receipt::Level;
use tempfile::TempDir;

use crate::args::Args;
use crate::place::Programs;

/// Runs `bench keeper [--rounds N] [--short] [--in FOLDER]`, or `bench run` with the same words; or one of them beside another build.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let rest = match words {
        [what, rest @ ..] if rest.contains(&"--beside") => return compare(what, rest),
        ["keeper", rest @ ..] => rest,
        ["run", rest @ ..] => return run::run(rest),
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
    let (keeper, ground) = (Programs::beside()?.lastword, Ground::within(&folder)?);
    println!("bench keeper in {}: {rounds} rounds, interleaved; medians", folder.display());
    let mut flush = latency::flushes(&ground, if short { 50 } else { 300 })?;
    flush.print();
    let mut reached = rates::compare(&keeper, &ground, rounds, short)?;
    reached &= cost::memory(&keeper, &ground)?;
    let syncs = cost::syncs()?;
    latency::start(&keeper, &ground, if short { 40 } else { 300 })?;
    reached &= latency::cancel(&keeper, &ground, if short { 40 } else { 300 }, syncs, &flush)?;
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
    let ground = Ground::within(&args.text("--in").map_or_else(std::env::temp_dir, PathBuf::from))?;
    match what {
        "keeper" => {
            beside::compare(rounds, &other, &programs.lastword, |path| beside::keeper(path, &ground, short))
        }
        "run" => {
            beside::compare(rounds, &other, &programs.lastword, |path| run::figures(path, &ground, short))
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
    let (keeper, ground) = (Programs::beside()?.lastword, Ground::within(&std::env::temp_dir())?);
    match *what {
        "jobs" => rates::ours(&keeper, &ground, Level::Cgroup, 2, count).map(|_| true),
        "cancels" => latency::cancel_p50(&keeper, &ground, count).map(|_| true),
        _ => Err(format!("no such part: {what}")),
    }
}

/// Where the bench works. Nothing of it is removed before the end: a file system is slow to give away what was removed lately, and
/// that must not fall on whoever comes next.
struct Ground(TempDir);

impl Ground {
    /// Works in a folder of a file system that was chosen: what a flush costs, it decides.
    fn within(folder: &Path) -> Result<Ground, String> {
        TempDir::new_in(folder).map(Ground).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Makes an empty folder.
    fn folder(&self) -> Result<PathBuf, String> {
        let folder = tempfile::Builder::new().tempdir_in(self.0.path());
        folder.map(TempDir::keep).map_err(|error| error.to_string())
    }
}

/// Runs a program whose words do not matter and which must succeed.
fn quiet(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
