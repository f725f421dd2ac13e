//! Seeded bugs: each rule is broken on purpose, one at a time, and somebody must notice.
//!
//! `cargo xtask bugs` asks the model, the simulation and the conformance suite in turn, and for the feed a real PostgreSQL. A
//! bug that nobody finds means that a checker is blind, and fails the run; so does a checker that complains about sound code.

#![expect(clippy::print_stdout, reason = "its verb reports to a person")]

use std::time::Instant;

use lastword_core::seeded::{self, Bug};

use crate::{backends, conformance, model, sim};

/// Worlds the model looks at for one bug, breadth first.
const WORLDS: usize = 150_000;

/// Schedules the simulation runs for one bug.
const SCHEDULES: u64 = 30_000;

/// Who found a bug, and what it looked like.
struct Finding {
    by: &'static str,
    how: String,
}

/// The verb `bugs`: breaks every rule in turn; fails if one is not missed.
pub async fn main(arguments: &[String]) -> Result<(), String> {
    let chosen: Vec<Bug> = match arguments {
        [] => Bug::ALL.to_vec(),
        [name] => Bug::ALL.iter().copied().filter(|bug| bug.name() == name).collect(),
        _ => return Err("usage: bugs [NAME]".to_owned()),
    };
    if chosen.is_empty() {
        return Err(format!("no bug is called {arguments:?}"));
    }
    // A case that fails panics, and here that is what it should do.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(finding) = look(None).await {
        return Err(format!("nothing is broken, and yet the {} says: {}", finding.by, finding.how));
    }
    println!("sound code: nobody complains\n");
    let mut unfound = Vec::new();
    for bug in &chosen {
        let started = Instant::now();
        match look(Some(*bug)).await {
            Some(Finding { by, how }) => {
                let seconds = started.elapsed().as_secs_f64();
                println!("{:<28} {by:<12} {seconds:>5.1} s  {how}", bug.name());
            }
            None => {
                println!("{:<28} NOT FOUND", bug.name());
                unfound.push(bug.name());
            }
        }
    }
    println!("\n{} bugs, {} not found", chosen.len(), unfound.len());
    if unfound.is_empty() { Ok(()) } else { Err(format!("not found: {}", unfound.join(", "))) }
}

/// Asks one checker after the other, with `bug` switched on.
async fn look(bug: Option<Bug>) -> Option<Finding> {
    seeded::switch(bug);
    let finding = ask(bug).await;
    seeded::switch(None);
    finding
}

async fn ask(bug: Option<Bug>) -> Option<Finding> {
    if let Some((rule, way)) = model::find(WORLDS) {
        return Some(Finding { by: "model", how: format!("{rule} ({} steps)", way.len()) });
    }
    if let Some((seed, violation)) = sim::find(bug, SCHEDULES, 1).violation {
        return Some(Finding { by: "simulation", how: format!("{} (seed {seed})", violation.name) });
    }
    // The simulation switches off what it switched on.
    seeded::switch(bug);
    if let Some(broken) = conformance::run_all(backends::memory).await.into_iter().next() {
        return Some(Finding { by: "conformance", how: broken.case.to_owned() });
    }
    // Only where transactions commit out of order can a feed skip one.
    let broken = conformance::run_some(backends::postgres, |case| case.contains("hide_no_event")).await;
    let broken = broken.into_iter().next()?;
    Some(Finding { by: "conformance", how: format!("{} (on PostgreSQL)", broken.case) })
}
