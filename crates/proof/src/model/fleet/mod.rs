//! The model of a fleet: every state of two hosts, two clerks and a database within bounds, over the production rules.
//!
//! `cargo xtask model --fleet` explores it. The ledger with its rules for appends, claims, renewals and ends of lives, the rules of beats, leases
//! and pauses, and the owner's step are the ones that ship. Modelled are the processes around them: workers that freeze, crash or hang,
//! keepers with their trees, clerks with clocks of their own, a standby that lacks the last writes, a cloned host.
//!
//! - `world.rs`: the state. `step.rs`: what can happen. `rules.rs`: what must hold. `coverage.rs`: what must be met. `explore.rs`: the search.
//! - `database.rs`, `worker.rs`, `clerk.rs`, `keeper.rs`, `attempt.rs`: the parts of a fleet.

mod attempt;
mod clerk;
mod coverage;
mod database;
mod explore;
mod keeper;
mod rules;
mod step;
mod worker;
mod world;

use std::time::Instant;

use coverage::Coverage;
use explore::{Explored, explore};
use rules::ALWAYS;
use step::Action;
use world::Bounds;

/// No fault.
const CALM: Bounds = Bounds {
    stalls: 0,
    crashes: 0,
    losses: 0,
    failovers: 0,
    clones: 0,
    keepers: 0,
    drifts: 0,
    is_lazy: false,
    attempts: 1,
};

/// What every change is checked with, each to the last state. Each slice has the faults that make a rule necessary together. One attempt is enough
/// where a wrong end of it shows; with two, the job runs again elsewhere.
const QUICK: &[Bounds] = &[
    Bounds { stalls: 1, drifts: 1, ..CALM },
    Bounds { stalls: 1, keepers: 1, ..CALM },
    Bounds { stalls: 1, attempts: 2, ..CALM },
    Bounds { failovers: 1, losses: 1, ..CALM },
    Bounds { failovers: 1, drifts: 1, ..CALM },
    Bounds { stalls: 1, clones: 1, ..CALM },
];

/// The long run. Slices with too many states are explored up to a depth.
const FULL: &[Bounds] = &[
    Bounds { stalls: 1, drifts: 1, keepers: 1, attempts: 2, ..CALM },
    Bounds { stalls: 1, keepers: 2, ..CALM },
    Bounds { stalls: 2, ..CALM },
    Bounds { stalls: 1, is_lazy: true, ..CALM },
    Bounds { stalls: 1, failovers: 1, ..CALM },
    Bounds { failovers: 1, crashes: 1, ..CALM },
    Bounds { failovers: 1, losses: 1, attempts: 2, ..CALM },
    Bounds { failovers: 2, ..CALM },
    Bounds { stalls: 1, clones: 1, crashes: 1, ..CALM },
];

/// Where the search of a slice stops: its states are in memory. No slice of the quick run has so many.
const STATES_MAX: usize = 2_000_000;

/// Looks for a violation, as a seeded bug must cause one: its name and the number of steps to it.
pub(crate) fn find() -> Option<(&'static str, usize)> {
    first_violation().map(|(rule, way)| (rule, way.len()))
}

fn first_violation() -> Option<(&'static str, Vec<Action>)> {
    QUICK.iter().find_map(|bounds| explore(bounds, STATES_MAX).violation)
}

/// The verb `model --fleet --bug NAME`: fails unless the bug that is switched on is noticed.
pub(super) fn expect(bug: &str) -> Result<(), String> {
    let (rule, way) = first_violation().ok_or_else(|| format!("{bug} was not found"))?;
    println!("{bug} was found, after {} steps: {rule}\n  {}", way.len(), lines(&way));
    Ok(())
}

fn lines(way: &[Action]) -> String {
    let way: Vec<String> = way.iter().map(|action| format!("{action:?}")).collect();
    way.join("\n  ")
}

/// The verb `model --fleet`: explores, reports, and fails on anything that is not as it should be.
pub(super) fn main(is_full: bool) -> Result<(), String> {
    let slices = if is_full { FULL } else { QUICK };
    let (mut coverage, mut states, mut violations) = (Coverage::default(), 0, Vec::new());
    let mut is_complete = true;
    let started = Instant::now();
    for bounds in slices {
        let begun = Instant::now();
        let seen = explore(bounds, STATES_MAX);
        print(bounds, &seen, begun.elapsed().as_secs_f64());
        states += seen.states;
        is_complete &= seen.is_complete || seen.violation.is_some();
        coverage.add(&seen.coverage);
        violations.extend(seen.violation);
    }
    let (table, unmet) = coverage.table();
    let seconds = started.elapsed().as_secs_f64();
    println!("states      {states} in {seconds:.1} s ({:.0}/s)", states as f64 / seconds);
    println!("rules       {} in every state, {} violated", ALWAYS.len() + 1, violations.len());
    println!("situations  {} of {} met", Coverage::possible() - unmet.len(), Coverage::possible());
    println!("\nsteps that met each situation:\n{table}");
    for (name, way) in &violations {
        println!("VIOLATED: {name}\n  {}", lines(way));
    }
    let failures = [
        (!violations.is_empty()).then(|| format!("{} rules violated", violations.len())),
        (!is_complete && !is_full).then(|| "a slice was not explored to its last state".to_owned()),
        (!unmet.is_empty()).then(|| format!("not met: {}", unmet.join("; "))),
    ];
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

fn print(bounds: &Bounds, seen: &Explored, seconds: f64) {
    let Explored { states, steps, depth, is_complete, .. } = seen;
    let how = if *is_complete { "to the last state" } else { "stopped at the count" };
    println!("{bounds:?}\n  {states} states, {steps} steps, {how}, depth {depth}, {seconds:.1} s");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_faults_the_job_completes_in_every_order() {
        let seen = explore(&CALM, STATES_MAX);
        assert!(seen.is_complete && seen.violation.is_none(), "{:?}", seen.violation);
        assert!(seen.coverage.has_met(coverage::Situation::Completed));
        assert!(!seen.coverage.has_met(coverage::Situation::LifeEnded));
    }

    #[test]
    fn a_worker_that_is_killed_costs_no_job_its_end() {
        let seen = explore(&Bounds { crashes: 1, ..CALM }, STATES_MAX);
        assert!(seen.is_complete && seen.violation.is_none(), "{:?}", seen.violation);
        assert!(seen.coverage.has_met(coverage::Situation::TreeAdopted));
    }

    #[test]
    fn a_search_that_is_cut_short_says_so() {
        assert!(!explore(&CALM, 10).is_complete);
    }
}
