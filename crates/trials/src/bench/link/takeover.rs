//! The death of a worker, until its server has the last word on its job: the lease, the margin, and what comes on top.

use std::time::{Duration, Instant};

use lastword_client::jobs::{self, Until};

use super::super::latency::{Times, ms};
use super::members::{Fleet, submit_on};
use crate::clock;
use crate::statistics::goal;

/// The lease of a worker, and what a server waits beyond it.
const LEASE_AND_MARGIN: Duration = Duration::from_secs(15 + 2);

/// What may come on top.
const MORE_MAX: Duration = Duration::from_secs(2);

/// Between the deaths of two workers: they are spread over more than a renewal.
const PAUSE: Duration = Duration::from_millis(330);

/// How long one call waits for a job.
const WAIT: Duration = Duration::from_secs(60);

/// Kills so many workers in each round, each with a job, and prints how long it took.
pub(super) fn measure(rounds: usize, workers: usize) -> Result<bool, String> {
    let mut times = Times::default();
    for round in 0..rounds {
        let mut fleet = Fleet::start(workers, 1)?;
        times.0.extend(round_of(&mut fleet)?);
        eprintln!("takeover, round {round}: p99 so far {:.0} ms", times.p99());
    }
    println!("{:<44} {:>9} {:>9}", "a worker is killed until the last word, ms", "p50", "p99");
    times.print(&format!("{} workers, lease 15 s, margin 2 s", times.0.len()));
    let most = (LEASE_AND_MARGIN + MORE_MAX).as_secs_f64() * 1e3;
    let fine = times.p99() <= most;
    println!("goal: p99 at most {most:.0} ms{}", goal(fine));
    Ok(fine)
}

fn round_of(fleet: &mut Fleet) -> Result<Vec<f64>, String> {
    let mut client = fleet.server.product.client();
    let mut ids = Vec::new();
    for number in 0..fleet.workers.len() {
        let label = format!("worker-{number}");
        let id = client.call(&submit_on(&label, &["/bin/sleep", "1000"]))?.id;
        client.call(&jobs::wait(&id, Until::Started, WAIT))?;
        ids.push(id);
    }
    // Each waits in a thread of its own: what is measured is when the last word came, not when it was asked for.
    let mut waiting = Vec::new();
    for (worker, id) in fleet.workers.iter_mut().zip(ids) {
        let mut client = fleet.server.product.client();
        worker.kill();
        let begin = Instant::now();
        waiting.push(std::thread::spawn(move || {
            let job = client.call(&jobs::wait(&id, Until::Ended, WAIT))?;
            match job.is_ended() {
                true => Ok(ms(begin)),
                false => Err(format!("{id}: its worker is dead, and it is {}", job.phase)),
            }
        }));
        clock::rest(PAUSE);
    }
    waiting.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?).collect()
}
