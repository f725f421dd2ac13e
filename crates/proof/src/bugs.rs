//! Seeded bugs: each rule is broken on purpose, one at a time, and somebody must notice.
//!
//! `cargo xtask bugs` asks the model, the simulations and the conformance suite in turn, and for the feed a real PostgreSQL; for a rule
//! of the engine, its simulation alone. A bug that nobody finds means that a checker is blind, and fails the run; so does a checker
//! that complains about sound code.

#![expect(clippy::print_stdout, reason = "its verb reports to a person")]

use std::time::Instant;

use lastword_core::seeded as core;
use lastword_engine::seeded as engine;

use crate::schedules::many;
use crate::{backends, conformance, engine_sim, model, sim};

/// Worlds the model looks at for one bug, breadth first.
const WORLDS: usize = 150_000;

/// Schedules the simulation runs for one bug.
const SCHEDULES: u64 = 30_000;

/// Schedules the simulation of the engine runs for one bug.
const ENGINE_SCHEDULES: u64 = 2_000;

/// A rule that can be broken, by the room that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Core, or a journal.
    Core(core::Bug),
    /// The engine.
    Engine(engine::Bug),
}

impl Bug {
    /// Returns every bug.
    pub fn all() -> Vec<Bug> {
        let core = core::Bug::ALL.iter().map(|bug| Bug::Core(*bug));
        core.chain(engine::Bug::ALL.iter().map(|bug| Bug::Engine(*bug))).collect()
    }

    /// Returns the bug's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::Core(bug) => bug.name(),
            Bug::Engine(bug) => bug.name(),
        }
    }

    /// Returns the bug of that name.
    pub fn named(name: &str) -> Result<Bug, String> {
        let known = Bug::all().into_iter().find(|bug| bug.name() == name);
        known.ok_or_else(|| format!("no bug is called `{name}`"))
    }
}

/// Switches one bug on, or all off.
pub fn switch(bug: Option<Bug>) {
    core::switch(match bug {
        Some(Bug::Core(bug)) => Some(bug),
        _ => None,
    });
    engine::switch(match bug {
        Some(Bug::Engine(bug)) => Some(bug),
        _ => None,
    });
}

/// Who found a bug, and what it looked like.
struct Finding {
    by: &'static str,
    how: String,
}

/// The verb `bugs`: breaks every rule in turn; fails if one is not missed.
pub async fn main(arguments: &[String]) -> Result<(), String> {
    let chosen: Vec<Bug> = match arguments {
        [] => Bug::all(),
        [name] => vec![Bug::named(name)?],
        _ => return Err("usage: bugs [NAME]".to_owned()),
    };
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
    switch(bug);
    let finding = match bug {
        Some(Bug::Engine(_)) => ask_engine(),
        _ => ask().await,
    };
    switch(None);
    finding
}

fn ask_engine() -> Option<Finding> {
    let (seed, violation) = many(&engine_sim::SIMULATION, ENGINE_SCHEDULES, 1, 2).violation?;
    Some(Finding { by: "engine", how: format!("{} (seed {seed})", violation.name) })
}

async fn ask() -> Option<Finding> {
    if let Some((rule, way)) = model::find(WORLDS) {
        return Some(Finding { by: "model", how: format!("{rule} ({} steps)", way.len()) });
    }
    if let Some((seed, violation)) = many(&sim::SIMULATION, SCHEDULES, 1, 2).violation {
        return Some(Finding { by: "simulation", how: format!("{} (seed {seed})", violation.name) });
    }
    if let Some(finding) = ask_engine() {
        return Some(finding);
    }
    if let Some(broken) = conformance::run_all(backends::memory).await.into_iter().next() {
        return Some(Finding { by: "conformance", how: broken.case.to_owned() });
    }
    // Only where transactions commit out of order can a feed skip one.
    let broken = conformance::run_some(backends::postgres, |case| case.contains("hide_no_event")).await;
    let broken = broken.into_iter().next()?;
    Some(Finding { by: "conformance", how: format!("{} (on PostgreSQL)", broken.case) })
}
