//! A forced cancel, from the call to the proof: at the server of a worker, and at the daemon where the job runs, in turn.

use std::time::{Duration, Instant};

use lastword_api::{Cancel, Job};
use lastword_client::Call;
use lastword_client::jobs::{self, Until};
use lastword_proc::Identity;

use super::super::folders::Folders;
use super::super::latency::{Times, asleep, ms};
use super::super::run::product::{Ours, submit};
use super::members::{Fleet, submit_on};
use crate::product::client::Client;
use crate::statistics::goal;

/// How long one call waits for a job.
const WAIT: Duration = Duration::from_secs(30);

/// What the way to another host may add, in milliseconds.
const P50_MORE: f64 = 10.0;
const P99_MORE: f64 = 50.0;

/// The job.
const SLEEP: [&str; 2] = ["/bin/sleep", "1000"];

/// Cancels so many jobs of each side in each round, and prints both.
pub(super) fn measure(rounds: usize, count: usize) -> Result<bool, String> {
    let fleet = Fleet::start(1, 4)?;
    let folders = Folders::within(&std::env::temp_dir())?;
    let ours = Ours::start(&folders)?;
    let (mut elsewhere, mut local) = (fleet.server.product.client(), ours.product.client());
    ours.slots(&mut local, 4)?;
    let (mut far, mut near) = (Times::default(), Times::default());
    for _ in 0..rounds * count {
        far.0.push(one(&mut elsewhere, &submit_on("worker-0", &SLEEP))?);
        near.0.push(one(&mut local, &submit(SLEEP.map(str::to_owned).to_vec()))?);
    }
    println!("{:<44} {:>9} {:>9}", "a forced cancel until proven dead, ms", "p50", "p99");
    far.print("at the server of another host's worker");
    near.print("at the daemon where it runs");
    let more = (far.p50() - near.p50(), far.p99() - near.p99());
    let fine = more.0 <= P50_MORE && more.1 <= P99_MORE;
    println!(
        "goal: {P50_MORE:.0} ms more at p50 and {P99_MORE:.0} ms at p99; is {:.2} and {:.2}{}",
        more.0,
        more.1,
        goal(fine)
    );
    Ok(fine)
}

fn one(client: &mut Client, submit: &Call<Job>) -> Result<f64, String> {
    let id = client.call(submit)?.id;
    let job = client.call(&jobs::wait(&id, Until::Started, WAIT))?;
    let pid = job.attempts.first().and_then(|attempt| attempt.pid);
    let pid = pid.ok_or_else(|| format!("{id} has no process: {}", job.phase))?;
    asleep(pid)?;
    let sleeper = Identity::of(pid).ok_or_else(|| format!("{id}: its process is gone"))?;
    let begin = Instant::now();
    client.call(&jobs::cancel(&id, &Cancel { force: true, ..Cancel::default() }))?;
    let job = client.call(&jobs::wait(&id, Until::Ended, WAIT))?;
    let took = ms(begin);
    match job.is_ended() && !sleeper.is_alive() {
        true => Ok(took),
        false => Err(format!("{id}: cancelled, and {}", job.phase)),
    }
}
