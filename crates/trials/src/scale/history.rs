//! The same calls beside a long history and beside a short one, in turn.

use std::process::{Command, Stdio};
use std::time::Instant;

use lastword_client::jobs::Filter;
use lastword_client::{daemon, jobs};
use serde_json::Value;

use super::installation::{Installation, Times, quiet};
use super::sleepers::{self, newest};
use crate::product::{Product, figures};
use crate::statistics::goal;

/// Ended jobs of the short history: as many as a list shows, so that both show the same.
const FEW: u64 = 60;

/// Jobs that run meanwhile, in both.
const RUNNING: usize = 10;

/// How much slower a long history may be.
const SLOWER_MAX: f64 = 1.2;

/// What is compared.
const CALLS: [&str; 6] = [
    "start of the daemon, until it is ready",
    "lastword ls",
    "lastword ls --all",
    "lastword show, an ended job",
    "GET /v1/jobs?limit=50",
    "GET /v1/jobs/{id}",
];

/// Runs it, and reports whether the goals were reached.
pub(super) fn run(ended: u64, short: bool) -> Result<bool, String> {
    let (few, many) = (made(FEW)?, made(ended)?);
    let places = [&few, &many];
    let mut times: [[Times; CALLS.len()]; 2] = Default::default();
    // Each starts often enough for a median, and is asked often enough for a tail.
    let (starts, calls) = if short { (5, 20) } else { (11, 200) };
    for _ in 0..starts {
        for (place, times) in places.into_iter().zip(&mut times) {
            place.product.said(&["daemon", "stop"])?;
            times[0].time(|| place.product.start())?;
        }
    }
    let ids = [ended_job(&few.product)?, ended_job(&many.product)?];
    for _ in 0..calls {
        for ((place, id), times) in places.into_iter().zip(&ids).zip(&mut times) {
            let (product, mut client) = (&place.product, place.product.client());
            times[1].time(|| quiet(product, &["ls"]))?;
            times[2].time(|| quiet(product, &["ls", "--all"]))?;
            times[3].time(|| quiet(product, &["show", id]))?;
            // Connected before: what is timed is the answer.
            client.call(&daemon::show())?;
            times[4].time(|| client.call(&jobs::list(&newest(50)).untyped()))?;
            times[5].time(|| client.call(&jobs::show(id).untyped()))?;
        }
    }
    let reached = print(ended, &mut times);
    for (count, place) in [FEW, ended].into_iter().zip(places) {
        let resident = place.product.daemon().and_then(figures::resident_kb).unwrap_or(0);
        println!("daemon with {count} ended jobs and {RUNNING} running: {resident} kB resident");
    }
    Ok(reached)
}

fn print(ended: u64, times: &mut [[Times; CALLS.len()]; 2]) -> bool {
    let title = format!("ms, {FEW} and {ended} ended jobs, in turn");
    println!("\n{title:<44} {:>9} {:>9} {:>9} {:>9} {:>7}", "p50", "p50", "p99", "p99", "ratio");
    let mut reached = true;
    let [few, many] = times;
    for ((name, few), many) in CALLS.iter().zip(few).zip(many) {
        let ratio = many.p50() / few.p50();
        let fine = ratio <= SLOWER_MAX;
        reached &= fine;
        println!(
            "{name:<44} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {ratio:>7.2}{}",
            few.p50(),
            many.p50(),
            few.p99(),
            many.p99(),
            goal(fine)
        );
    }
    println!("goal: at most {SLOWER_MAX} times the median beside a short history");
    reached
}

/// Makes a place with so many ended jobs, a few that run, and a daemon.
fn made(ended: u64) -> Result<Installation, String> {
    let place = Installation::make()?;
    let begin = Instant::now();
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let proof = own.with_file_name("lastword-proof");
    let mut command = Command::new(&proof);
    command.arg("history").arg(place.product.home()).arg(ended.to_string()).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("{}: {status}", proof.display())),
        Err(error) => {
            return Err(format!("{}: {error}; start this with `cargo xtask scale`", proof.display()));
        }
    }
    println!("{ended} ended jobs were written in {:.1} s", begin.elapsed().as_secs_f64());
    place.product.start()?;
    sleepers::start(&place.product, RUNNING)?;
    Ok(place)
}

/// Returns the id of an ended job that a list shows.
fn ended_job(product: &Product) -> Result<String, String> {
    let ended = Filter { phases: vec!["ended".to_owned()], ..newest(50) };
    let page = product.client().call(&jobs::list(&ended).untyped())?;
    let last = page["items"].as_array().and_then(|rows| rows.last()).cloned().unwrap_or(Value::Null);
    last["id"].as_str().map(str::to_owned).ok_or_else(|| format!("no ended job is listed: {page}"))
}
