//! One job whose log grows: a request must not cost more because the job has had many.

use std::time::Instant;

use lastword_api::LimitsPatch;
use lastword_client::jobs;

use super::installation::{Installation, Times};
use super::sleepers::{self, newest};
use crate::statistics::goal;

/// Requests at the beginning and at the end that are compared.
const COMPARED: usize = 100;

/// How much slower the last requests may be.
const SLOWER_MAX: f64 = 1.2;

/// What is compared.
const CALLS: [&str; 2] = ["PATCH /v1/jobs/{id}/limits", "GET /v1/jobs/{id}"];

/// Runs it with so many events, and reports whether the goal was reached.
pub(super) fn run(events: usize) -> Result<bool, String> {
    let place = Installation::make()?;
    place.product.start()?;
    sleepers::start(&place.product, 1)?;
    let mut client = place.product.client();
    let page = client.call(&jobs::list(&newest(1)))?;
    let id = page.items.first().map(|row| row.id.clone()).ok_or("the job is not listed")?;
    let mut times: [[Times; CALLS.len()]; 2] = Default::default();
    let (mut unjudged, begin) = (Times::default(), Instant::now());
    for n in 0..events {
        let patch = jobs::set_limits(
            &id,
            &LimitsPatch { wall_ms: Some(Some(3_600_000 + n as u64)), ..LimitsPatch::default() },
        );
        let compared = match n {
            n if n < COMPARED => Some(0),
            n if n >= events - COMPARED.min(events) => Some(1),
            _ => None,
        };
        let Some(at) = compared else {
            unjudged.time(|| client.call(&patch))?;
            continue;
        };
        times[at][0].time(|| client.call(&patch))?;
        times[at][1].time(|| client.call(&jobs::show(&id)))?;
    }
    let job = client.call(&jobs::show(&id))?;
    if job.version < events as u64 {
        return Err(format!("{events} limits were changed, and the job has {} events", job.version));
    }
    println!("\n{} events on one job, written in {:.1} s", job.version, begin.elapsed().as_secs_f64());
    Ok(print(&mut times))
}

fn print(times: &mut [[Times; CALLS.len()]; 2]) -> bool {
    let title = format!("ms, the first and the last {COMPARED}");
    println!("{title:<44} {:>9} {:>9} {:>9} {:>9} {:>7}", "mean", "mean", "p99", "p99", "ratio");
    let mut reached = true;
    let [first, last] = times;
    for ((name, first), last) in CALLS.iter().zip(first).zip(last) {
        let ratio = last.mean() / first.mean();
        let fine = ratio <= SLOWER_MAX;
        reached &= fine;
        println!(
            "{name:<44} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {ratio:>7.2}{}",
            first.mean(),
            last.mean(),
            first.p99(),
            last.p99(),
            goal(fine)
        );
    }
    println!("goal: the mean of the last at most {SLOWER_MAX} times that of the first");
    reached
}
