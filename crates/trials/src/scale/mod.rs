//! `scale laptop`: how much of the product a laptop bears: many jobs at once, and a long history.
//!
//! - [`live`]: jobs that sleep, all at once: memory, idle CPU, lists, and the time until all are proven dead.
//! - [`followers`]: what a follower of the list costs the daemon.
//! - [`history`]: the same calls beside an empty history and a long one.
//! - [`log`]: the same request on one job, many times: the first ones and the last ones.
//! - [`installation`]: the product in a folder of its own, and how long its calls take.
//! - [`sleepers`]: many jobs, asked for and found again.

mod followers;
mod history;
mod installation;
mod live;
mod log;
mod sleepers;

use crate::args::Args;

const USAGE: &str = "scale laptop [--jobs N] [--history N] [--events N] [--short]

A thousand sleeping jobs at once: memory of the daemon and of the keepers by job, the daemon's CPU while nothing happens, without
and with programs that follow the list, `ls` through the command line and the API, `cancel --all` until every process is gone. Then `ls`, `show` and the start of the daemon
beside a history of a hundred thousand ended jobs and beside one of a few. Then ten thousand limit changes of one job: the last
requests beside the first ones.

  --jobs N      how many sleep at once, 1000 if nothing is said
  --history N   how many have ended, 100000 if nothing is said
  --events N    how many events one job has, 10000 if nothing is said
  --short       60 at once, 2000 in the history and 2000 events, for a look";

/// Runs `scale laptop`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let rest = match words {
        ["laptop", rest @ ..] if !rest.iter().any(|word| matches!(*word, "--help" | "-h")) => rest,
        _ => {
            println!("{USAGE}");
            return Ok(true);
        }
    };
    let args = Args::new(rest, &["--jobs", "--history", "--events"], &["--short"])?;
    let short = args.has("--short");
    let jobs: usize = args.value("--jobs", if short { 60 } else { 1_000 })?;
    let ended: u64 = args.value("--history", if short { 2_000 } else { 100_000 })?;
    let events: usize = args.value("--events", if short { 2_000 } else { 10_000 })?;
    let mut reached = live::run(jobs, short)?;
    reached &= history::run(ended, short)?;
    reached &= log::run(events)?;
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise; those end with an error.
    Ok(true)
}
