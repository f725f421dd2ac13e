//! `api --rows`: jobs that many writers change, followers of the list that are cut off at random, and a daemon that is killed.
//!
//! After each quiet moment the rows of every follower must be the list, and no row may be older than one that was told before.
//!
//! - [`writer`]: what writers do to jobs. [`follower`]: a follower, and what it must never see. [`cut`]: connections that break. [`list`]: the list
//!   that followers are compared with.

mod cut;
mod follower;
mod list;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lastword_client::jobs::Filter;

use crate::args::Args;
use crate::clock;
use crate::place::{Programs, temporary};
use crate::product::Product;
use crate::random::Random;
use crate::verdict::{bug, verdict};
use follower::Follower;
use list::listed;

/// The longest until all followers have the list after the last change. Why a job waits is looked up two seconds after a change, and since
/// when one is silent every fifteen.
const QUIET_MAX: Duration = Duration::from_secs(25);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
struct Size {
    jobs: u64,
    writers: u64,
    followers: u64,
    kills: u64,
    rounds: u64,
    seed: u64,
}

/// Runs the trial. With `--bug` the server is wrong on purpose, and that must be noticed.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let valued = ["--jobs", "--writers", "--followers", "--kills", "--rounds", "--seed", "--bug"];
    let args = Args::new(words, &valued, &["--rows"])?;
    let bug = bug(&args, &["row-forgotten", "gone-untold"])?;
    let size = Size {
        jobs: args.value("--jobs", 1_000)?,
        writers: args.value("--writers", 50)?,
        followers: args.value("--followers", 20)?,
        kills: args.value("--kills", 20)?,
        rounds: args.value("--rounds", 10)?,
        seed: args.value("--seed", 1)?,
    };
    let folder = temporary("rows")?;
    let lastword = Programs::beside()?.lastword;
    let home = folder.path().join("home");
    let product = match bug {
        None => Product::install(&lastword, folder.path(), &home)?,
        // A program has the bug switched on that it is called after.
        Some(bug) => {
            let program = folder.path().join(format!("lastword.{bug}"));
            std::fs::copy(&lastword, &program).map_err(|error| format!("{}: {error}", program.display()))?;
            Product::at(program, folder.path(), &home)?
        }
    };
    let found = trial(&product, size);
    product.tear_down();
    Ok(verdict(bug, found))
}

fn trial(product: &Product, size: Size) -> Result<(), String> {
    product.start()?;
    writer::prepare(product, size.jobs)?;
    let cuts = Arc::new(AtomicU64::new(0));
    let followers: Vec<Follower> =
        (0..size.followers).map(|n| Follower::start(product, n, size.seed, &cuts)).collect();
    let mut random = Random::new(size.seed);
    let (begun, mut writes, mut killed) = (Instant::now(), 0, 0);
    for round in 0..size.rounds {
        let kills = size.kills * (round + 1) / size.rounds - size.kills * round / size.rounds;
        writes += disturb(product, size, round, kills, &mut random)?;
        killed += kills;
        product.start()?;
        quiet(product, &followers).map_err(|why| format!("after round {}: {why}", round + 1))?;
    }
    let told: u64 = followers.iter().map(Follower::told).sum();
    println!(
        "api --rows: {} jobs, {writes} writes of {} writers, the daemon killed {killed} times, {} followers cut {} times and told {told} rows, {} quiet moments in {:.0} s: every follower had the list, no row was older than one before (seed {})",
        listed(product, &Filter::default())?.len(),
        size.writers,
        size.followers,
        cuts.load(Ordering::Relaxed),
        size.rounds,
        begun.elapsed().as_secs_f64(),
        size.seed,
    );
    Ok(())
}

/// Has the writers write for a while, and kills the daemon meanwhile. Returns the number of writes.
fn disturb(
    product: &Product,
    size: Size,
    round: u64,
    kills: u64,
    random: &mut Random,
) -> Result<u64, String> {
    let (over, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..size.writers)
        .map(|n| {
            let (product, over, writes) = (product.clone(), Arc::clone(&over), Arc::clone(&writes));
            let seed = size.seed ^ (round << 32) ^ (n << 16);
            std::thread::spawn(move || writer::write(&product, seed, &over, &writes))
        })
        .collect();
    for _ in 0..kills {
        clock::rest(Duration::from_millis(300 + random.below(1_500)));
        if let Some(daemon) = product.daemon() {
            // SAFETY: a signal to the daemon of our own installation.
            unsafe { libc::kill(daemon, libc::SIGKILL) };
        }
        product.start()?;
    }
    clock::rest(Duration::from_millis(500 + random.below(1_000)));
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked".to_owned())?;
    }
    Ok(writes.load(Ordering::Relaxed))
}

/// Waits until nothing changes and every follower has the list.
fn quiet(product: &Product, followers: &[Follower]) -> Result<(), String> {
    let mut differs = String::new();
    let is_quiet = clock::until(QUIET_MAX, LOOK, || {
        let found = followers.iter().try_for_each(|follower| follower.check(product));
        found.map_err(|why| differs = why).ok()
    });
    // What a follower must never see is told at once, and stays.
    followers.iter().try_for_each(Follower::verdict)?;
    is_quiet.ok_or(differs)
}
