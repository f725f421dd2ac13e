//! Many jobs at once.

use std::time::{Duration, Instant};

use lastword_client::jobs;

use super::followers;
use super::installation::{Installation, Times, quiet};
use super::sleepers::{self, newest};
use crate::clock;
use crate::product::Product;
use crate::product::figures;
use crate::statistics::goal;

/// Part of a core that an idle daemon may use.
const IDLE_MAX: f64 = 0.005;

/// The p99 of a list, in milliseconds.
const LIST_MAX_MS: f64 = 20.0;

/// Runs it, and reports whether the goals were reached.
pub(super) fn run(jobs: usize, short: bool) -> Result<bool, String> {
    let place = Installation::make()?;
    let product = &place.product;
    product.start()?;
    let daemon = product.daemon().ok_or("the daemon is gone")?;
    let empty_kb = figures::resident_kb(daemon).ok_or("no memory to be read")?;
    let (asked, all) = sleepers::start(product, jobs)?;
    println!(
        "scale laptop: {jobs} jobs asked for one after the other in {:.1} s ({:.0}/s), all running after {:.1} s",
        asked.as_secs_f64(),
        jobs as f64 / asked.as_secs_f64(),
        all.as_secs_f64()
    );
    memory(product, daemon, jobs, empty_kb)?;
    let mut reached = idle(product, daemon, if short { 5 } else { 30 })?;
    // Longer than the time after which each follower looks at all live jobs again.
    reached &= followers::run(product, daemon, if short { 5 } else { 35 })?;
    reached &= lists(product, if short { 40 } else { 200 })?;
    cancel_all(product, daemon, jobs, &["cancel", "--all", "--force"])?;
    sleepers::start(product, jobs)?;
    cancel_all(product, daemon, jobs, &["cancel", "--all"])?;
    Ok(reached)
}

fn memory(product: &Product, daemon: i32, jobs: usize, empty_kb: u64) -> Result<(), String> {
    let full_kb = figures::resident_kb(daemon).ok_or("no memory to be read")?;
    println!("\n{:<44} {:>10}", "memory", "kB");
    println!("{:<44} {empty_kb:>10}", "daemon, resident, no job");
    println!("{:<44} {full_kb:>10}", "daemon, resident, all jobs running");
    println!("{:<44} {:>10.1}", "daemon, by job", (full_kb as f64 - empty_kb as f64) / jobs as f64);
    println!("{:<44} {:>10}", "descriptors of the daemon", figures::descriptors(daemon).unwrap_or(0));
    let (keepers, _) = sleepers::processes(product, daemon);
    let all: Vec<figures::Memory> = keepers.iter().filter_map(|pid| figures::memory(*pid)).collect();
    if all.len() < keepers.len() {
        println!("keepers are not read: their memory is closed to everybody but root");
        return Ok(());
    }
    let by_job = |of: fn(&figures::Memory) -> u64| all.iter().map(of).sum::<u64>() as f64 / jobs as f64;
    println!("{:<44} {:>10.1}", "keepers by job, proportional", by_job(|memory| memory.proportional));
    println!("{:<44} {:>10.1}", "keepers by job, private", by_job(|memory| memory.private));
    println!("{:<44} {:>10.1}", "keepers by job, resident", by_job(|memory| memory.resident));
    println!("{:<44} {:>10.2}", "keeper processes by job", keepers.len() as f64 / jobs as f64);
    Ok(())
}

/// Measures what daemon and keepers use while nothing happens.
fn idle(product: &Product, daemon: i32, seconds: u64) -> Result<bool, String> {
    let (keepers, _) = sleepers::processes(product, daemon);
    // What was still going on when the last job began is not idleness.
    clock::rest(Duration::from_secs(3));
    let used = |pids: &[i32]| {
        let ran =
            pids.iter().map(|pid| figures::run_ns(*pid).ok_or_else(|| format!("process {pid} is gone")));
        ran.sum::<Result<u64, String>>().map(|ns| ns as f64 / 1e9)
    };
    let (begin, before) = (Instant::now(), (used(&[daemon])?, used(&keepers)?));
    clock::rest(Duration::from_secs(seconds));
    let took = begin.elapsed().as_secs_f64();
    let by_daemon = (used(&[daemon])? - before.0) / took;
    let by_keepers = (used(&keepers)? - before.1) / took;
    let fine = by_daemon < IDLE_MAX;
    println!(
        "\nidle for {took:.0} s: the daemon uses {:.3} % of a core (goal below {:.1} %){}; all keepers together {:.3} %",
        by_daemon * 100.0,
        IDLE_MAX * 100.0,
        goal(fine),
        by_keepers * 100.0
    );
    Ok(fine)
}

fn lists(product: &Product, calls: usize) -> Result<bool, String> {
    let mut client = product.client();
    let mut times: [Times; 5] = Default::default();
    for _ in 0..calls {
        times[0].time(|| quiet(product, &["--version"]))?;
        times[1].time(|| quiet(product, &["ls"]))?;
        times[2].time(|| quiet(product, &["ls", "--limit", "500"]))?;
        times[3].time(|| client.call(&jobs::list(&newest(50)).untyped()))?;
        times[4].time(|| client.call(&jobs::list(&newest(500)).untyped()))?;
    }
    println!("\n{:<44} {:>9} {:>9}", format!("lists, ms, {calls} calls each, in turn"), "p50", "p99");
    let names = [
        ("lastword --version: a process, and no more", false),
        ("lastword ls (50 rows)", true),
        ("lastword ls --limit 500", false),
        ("GET /v1/jobs?limit=50", true),
        ("GET /v1/jobs?limit=500", false),
    ];
    let mut reached = true;
    for ((name, is_aim), times) in names.iter().zip(&mut times) {
        let fine = !is_aim || times.p99() < LIST_MAX_MS;
        reached &= fine;
        println!("{name:<44} {:>9.2} {:>9.2}{}", times.p50(), times.p99(), goal(fine));
    }
    println!("goal: p99 of a list of 50 below {LIST_MAX_MS:.0} ms");
    Ok(reached)
}

/// Cancels all at once, and looks by pid when the command says that all are dead.
fn cancel_all(product: &Product, daemon: i32, jobs: usize, words: &[&str]) -> Result<(), String> {
    let (keepers, kept) = sleepers::processes(product, daemon);
    let kept = sleepers::identities(&kept);
    if kept.len() < jobs {
        return Err(format!("{} processes for {jobs} jobs", kept.len()));
    }
    let begin = Instant::now();
    quiet(product, words)?;
    let took = begin.elapsed().as_secs_f64();
    let left = sleepers::gone(&kept)?;
    if left > 0 {
        return Err(format!(
            "`cancel --all` came back, and {left} of {} processes were still there",
            kept.len()
        ));
    }
    let mut client = product.client();
    let counts = sleepers::counts(&mut client);
    let phases = ["queued", "launching", "running", "stopping", "backoff"];
    let live: u64 = phases.iter().filter_map(|phase| counts.get(*phase)).sum();
    if live > 0 {
        return Err(format!("`cancel --all` came back, and {live} jobs have no last word: {counts:?}"));
    }
    let page = client.call(&jobs::list(&newest(500)).untyped())?;
    let rows = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(row) = rows.iter().find(|row| row["outcome"] != "cancelled") {
        return Err(format!("cancelled, and {} is told as {}", row["id"], row["outcome"]));
    }
    println!(
        "\n{}: {jobs} jobs proven dead after {took:.2} s ({:.2} ms each); none of {} processes and {} keepers left",
        words.join(" "),
        took * 1e3 / jobs as f64,
        kept.len(),
        keepers.len()
    );
    Ok(())
}
