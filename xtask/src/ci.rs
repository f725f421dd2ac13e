//! `ci`: everything a change must pass, one step after the other, until the first that fails.

use std::time::Duration;

use crate::program::{Failure, Outcome, cargo, cargo_with, succeeds};
use crate::steps::{AfterFailure, Done, Step, by_cargo, own, run as run_steps, verb};
use crate::{seeded, tools};

/// How long all of it may take on two quiet cores from a clean clone, once the tools are there. Longer, and people stop running it.
const BUDGET: Duration = Duration::from_secs(15 * 60);

#[rustfmt::skip] // One row, one step.
const STEPS: &[Step] = &[
    verb("tools", "tools"),
    by_cargo("format", "fmt --all --check"),
    verb("tidy", "tidy"),
    by_cargo("clippy", "clippy --workspace --all-targets -- -D warnings"),
    own("docs", docs),
    own("dependencies", dependencies),
    own("advisories", advisories),
    own("tests", tests),
    verb("README and book", "docs"),
    verb("contract", "contract --require"),
    // The copy of the workspace with every seeded bug in it; later steps with a bug run from there.
    own("seeded copy", seeded_copy),
    // The long form is `torture` with three repeats or more, which also decides on times, and with shim and guard killed.
    verb("torture", "torture --repeats 1"),
    verb("torture, stand-ins", "torture --bugs"),
    own("no bug ships", no_bug_ships),
    // The long form is `fuzz --seconds 600`.
    verb("fuzz", "fuzz"),
    verb("fuzz, seeded bug", "fuzz --bug cut-in-mid-character --seconds 120"),
    verb("model", "model"),
    // The long form is 1,000,000 schedules.
    verb("simulation", "sim --schedules 200000"),
    verb("seeded bugs", "bugs"),
    // The long forms, 200 kills and 60 images each, are run by hand.
    verb("crash, SQLite", "crash sqlite --rounds 40"),
    verb("crash, PostgreSQL", "crash postgres --rounds 8"),
    verb("cut connections", "crash postgres-cut --cuts 500"),
    verb("power loss, SQLite", "power-loss sqlite --images 20"),
    verb("power loss, PostgreSQL", "power-loss postgres --images 4"),
    // Each checker must fail when a store does not sync.
    verb("unsynced SQLite", "power-loss sqlite --images 5 --bug ack-before-sync"),
    verb("unsynced PostgreSQL", "power-loss postgres --images 5 --bug fsync-off"),
    // The keeper. The long forms are 100 kills, 60 images and 5 GB; each checker must fail when its bug is seeded.
    verb("kill points", "kill-points"),
    verb("fault points", "fault-points"),
    verb("scope", "scope"),
    verb("scope, none", "scope --bug no-scope"),
    verb("survive", "survive --rounds 25"),
    verb("not surviving", "survive --rounds 5 --bug plain-child"),
    verb("bombs", "bombs --short"),
    verb("bombs, uncapped", "bombs --short --bug uncapped"),
    verb("bombs, miscounted", "bombs --short --bug miscounted"),
    verb("power loss, keeper", "power-loss keeper --images 20"),
    verb("no file sync", "power-loss keeper --images 20 --bug no-file-sync"),
    verb("no folder sync", "power-loss keeper --images 20 --bug no-folder-sync"),
    verb("bench, keeper", "bench keeper --short"),
    // Real agents under the product: Claude and Codex always, the others as far as they can be had and the time goes.
    verb("agents", "agents --ci"),
    // What others leave behind, with every agent that runs here; a reaper that goes by names, or has no doubts, must be noticed.
    verb("orphans", "orphans"),
    verb("orphans, by name", "orphans --bug reap-by-name"),
    verb("orphans, no doubts", "orphans --bug no-doubts"),
    // What anybody could try against a user, with guards taken away at the end; the long form throws larger bombs.
    verb("attack", "attack --short"),
    // A state folder of the first release with live jobs of every kind, taken over in three ways.
    verb("upgrade", "e2e upgrade"),
    // The product. The long forms are 3 minutes and more, a thousand jobs and a hundred thousand, and five rounds.
    verb("chaos", "chaos --seconds 20"),
    verb("chaos, sabotaged", "chaos --bugs"),
    verb("scale", "scale laptop --short"),
    verb("bench, product", "bench run --short"),
];

/// Runs every step, or those that `--only` names.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let took = run_steps("ci", STEPS, arguments, AfterFailure::Stop)?;
    println!("{:<22} {:>7.1} s of {} s", "total", took.as_secs_f64(), BUDGET.as_secs());
    if took > BUDGET {
        println!("The budget was exceeded: make a step cheaper before adding another.");
    }
    Ok(())
}

fn docs() -> Result<Done, Failure> {
    cargo_with(&["doc", "--no-deps", "--workspace"], &[("RUSTDOCFLAGS", "-Dwarnings")])?;
    Ok(Done::Passed)
}

fn dependencies() -> Result<Done, Failure> {
    tools::need("deny")?;
    // The rules hold for every platform, so the crates of all of them are looked at; a build fetches those of its own only.
    cargo("fetch --locked --quiet")?;
    // A wrapper is a permission; that nobody uses it yet is not worth a warning.
    cargo("deny --offline check --allow unused-wrapper bans licenses sources")?;
    Ok(Done::Passed)
}

/// Checks known vulnerabilities, if their database can be had.
fn advisories() -> Result<Done, Failure> {
    tools::need("deny")?;
    if !succeeds("cargo", &["deny", "fetch", "db"]) {
        return Ok(Done::Skipped("the advisory database cannot be fetched from here"));
    }
    cargo("deny --offline check advisories")?;
    Ok(Done::Passed)
}

/// Runs all tests. Many of them wait most of their time, so there are three at once for each processor.
fn tests() -> Result<Done, Failure> {
    tools::need("nextest")?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    cargo(&format!("nextest run --workspace --no-fail-fast --test-threads {}", processors * 3))?;
    Ok(Done::Passed)
}

/// Builds the copy with the seeded bugs, for the steps that have a bug switched on.
fn seeded_copy() -> Result<Done, Failure> {
    seeded::build().map(|()| Done::Passed)
}

/// Looks for seeded bugs in the executable that the trials run.
fn no_bug_ships() -> Result<Done, Failure> {
    seeded::shipped::check_tried().map(|()| Done::Passed)
}
