//! `scale laptop`: how much of the product a laptop bears: many jobs at once, and a long history.
//!
//! - [`live`]: jobs that sleep, all at once: memory, idle CPU, lists, and the time until all are proven dead.
//! - [`history`]: the same calls beside an empty history and a long one.
//! - [`sleepers`]: many jobs, asked for and found again.

mod history;
mod live;
mod sleepers;

use std::process::Stdio;
use std::time::Instant;

use crate::args::Args;
use crate::place::{self, Programs};
use crate::product::Product;
use crate::statistics::percentile;

const USAGE: &str = "scale laptop [--jobs N] [--history N] [--short]

A thousand sleeping jobs at once: memory of the daemon and of the keepers by job, the daemon's CPU while nothing happens, `ls`
through the command line and the API, `cancel --all` until every process is gone. Then `ls`, `show` and the start of the daemon
beside a history of a hundred thousand ended jobs and beside one of a few.

  --jobs N      how many sleep at once, 1000 if nothing is said
  --history N   how many have ended, 100000 if nothing is said
  --short       60 at once and 2000 in the history, for a look";

/// Runs `scale laptop`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let rest = match words {
        ["laptop", rest @ ..] if !rest.iter().any(|word| matches!(*word, "--help" | "-h")) => rest,
        _ => {
            println!("{USAGE}");
            return Ok(true);
        }
    };
    let args = Args::new(rest, &["--jobs", "--history"], &["--short"])?;
    let short = args.has("--short");
    let jobs: usize = args.value("--jobs", if short { 60 } else { 1_000 })?;
    let ended: u64 = args.value("--history", if short { 2_000 } else { 100_000 })?;
    let mut reached = live::run(jobs, short)?;
    reached &= history::run(ended, short)?;
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise; those end with an error.
    Ok(true)
}

/// An installation in a folder of its own, torn down with everything it started.
struct Place {
    product: Product,
    // Removed after the product was torn down.
    _folder: tempfile::TempDir,
}

impl Place {
    fn make() -> Result<Place, String> {
        let folder = place::temporary("scale")?;
        let home = folder.path().join("home");
        let product = Product::install(&Programs::beside()?.lastword, folder.path(), &home)?;
        Ok(Place { product, _folder: folder })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.product.tear_down();
    }
}

/// How long a call took, in milliseconds, many times.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    /// Makes a call and notes how long it took.
    fn time<T>(&mut self, call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let begin = Instant::now();
        let answer = call()?;
        self.0.push(begin.elapsed().as_secs_f64() * 1e3);
        Ok(answer)
    }

    fn p50(&mut self) -> f64 {
        percentile(&mut self.0, 50)
    }

    fn p99(&mut self) -> f64 {
        percentile(&mut self.0, 99)
    }
}

/// Runs a command of the product whose words do not matter.
fn quiet(product: &Product, words: &[&str]) -> Result<(), String> {
    let status = product.command(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("lastword {}: {status}", words.join(" "))),
        Err(error) => Err(format!("lastword {}: {error}", words.join(" "))),
    }
}
