//! What the server computes for one job, beside pgbench with batches of the same size.

use std::fs;
use std::time::Instant;

use lastword_core::worker_labels::WorkerLabels;
use rustix::process::Pid;

use super::super::table::{Goal, Line};
use super::plan::{BATCHES, Outcome, Plan, WRITERS, open};
use super::{load, pgbench};
use crate::pg::Server;

/// Linux tells times of processes in hundredths of a second.
const MICROS_PER_TICK: f64 = 10_000.0;

/// Compares the time that all processes of the server used, by job.
pub(super) async fn cpu(plan: &Plan<'_>, server: &Server) -> Outcome<Vec<Line>> {
    let mut lines = Vec::new();
    for batch in BATCHES {
        lines.push(at(plan, server, batch).await?);
    }
    Ok(lines)
}

async fn at(plan: &Plan<'_>, server: &Server, batch: usize) -> Outcome<Line> {
    let database = server.database().await;
    let journal = open(server, &database, batch, true).await?;
    let (any, mut ours, mut theirs) = (WorkerLabels::default(), Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let (begun, used) = (Instant::now(), used(server)?);
        let rate = load::life_rate(&any, &journal, &journal, 2 * WRITERS, batch, plan.time()).await?;
        let jobs = rate * begun.elapsed().as_secs_f64();
        ours.push((self::used(server)? - used) * MICROS_PER_TICK / jobs);
        let lives = 40_000 * plan.seconds as usize / batch / WRITERS;
        let script = pgbench::lives(server, &database, &journal, (WRITERS, batch, lives)).await?;
        let used = self::used(server)?;
        let ran = script.run(server, &database, plan.seconds).await?;
        theirs.push((self::used(server)? - used) * MICROS_PER_TICK / (ran.runs * batch as f64));
        eprintln!("cpu, batch {batch}, round {round}: {:.1} / {:.1} us", ours[round], theirs[round]);
    }
    drop(journal);
    server.drop_database(&database).await;
    let name = format!("CPU of the server by job, batches of {batch}, journal / pgbench");
    Ok(Line::of(&name, "us", &mut ours, &mut theirs, Goal::AtMost(1.2)))
}

/// Returns what all processes of the server have used so far, in ticks. What has ended is in the account of the first one.
fn used(server: &Server) -> Outcome<f64> {
    let processes = server.processes();
    let mut ticks = 0.0;
    for (place, pid) in processes.iter().enumerate() {
        // utime and stime; then cutime and cstime, which count children that were waited for.
        let fields = if place == 0 { 4 } else { 2 };
        ticks += times(*pid).map_or(0.0, |times| times[..fields].iter().sum());
    }
    if ticks > 0.0 { Ok(ticks) } else { Err("the server has no processes".into()) }
}

/// Returns the four times of a process; `None` if it has just ended.
fn times(pid: Pid) -> Option<[f64; 4]> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // After the name, which may have spaces, these are the twelfth field and those that follow.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11).map(|field| field.parse().ok());
    Some([fields.next()??, fields.next()??, fields.next()??, fields.next()??])
}
