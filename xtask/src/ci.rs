//! `ci`: everything a change must pass, up to the first step that fails. The long forms of its steps are in `full`.

use std::time::{Duration, Instant};

use crate::program::{Failure, Outcome, cargo, cargo_with, succeeds};
use crate::seeded::Build;
use crate::steps::{AfterFailure, Done, Lane, by_cargo, own, run as run_steps, verb};
use crate::{bugs, e2e, proof, seeded, tools};

/// How long all of it may take from a clean clone on two quiet cores with the tools installed. If it takes longer, people stop running it.
const BUDGET: Duration = Duration::from_secs(15 * 60);

/// Quick checks: the answer is known within a minute or two.
#[rustfmt::skip] // One row, one step.
const FIRST: Lane = &[
    by_cargo("format", "fmt --all --check"),
    verb("tidy", "tidy"),
    by_cargo("clippy", "clippy --workspace --all-targets -- -D warnings"),
    own("docs", docs),
    own("dependencies", dependencies),
    own("advisories", advisories),
];

/// What the other steps run, so that none of them waits for another's build. The fuzzer has a build folder of its own.
#[rustfmt::skip]
const BUILDS: Lane = &[
    own("executable, trials", build_executable),
    own("test programs", build_tests),
    own("proof", build_proof),
    // The copy of the workspace with every seeded bug in it; steps with a bug run from there.
    own("seeded copy", build_seeded),
];

/// Tests, and what the journal survives.
#[rustfmt::skip]
const TESTS: Lane = &[
    own("tests", tests),
    verb("README and book", "docs"),
    verb("contract", "contract --require"),
    // Each checker must fail when a store does not sync.
    verb("crash, SQLite", "crash sqlite --rounds 40"),
    verb("crash, PostgreSQL", "crash postgres --rounds 8"),
    verb("cut connections", "crash postgres-cut --cuts 500"),
    verb("power loss, SQLite", "power-loss sqlite --images 20"),
    verb("power loss, PostgreSQL", "power-loss postgres --images 4"),
    verb("unsynced SQLite", "power-loss sqlite --images 5 --bug ack-before-sync"),
    verb("unsynced PostgreSQL", "power-loss postgres --images 5 --bug fsync-off"),
];

/// Trials with real processes, which mostly wait.
#[rustfmt::skip]
const TRIALS: Lane = &[
    // The keeper; each checker must fail when its bug is seeded.
    verb("torture", "torture --repeats 1"),
    verb("torture, stand-ins", "torture --bugs"),
    verb("kill points", "kill-points"),
    verb("fault points", "fault-points"),
    verb("scope", "scope"),
    verb("scope, none", "scope --bug no-scope"),
    verb("survive", "survive --rounds 25"),
    verb("not surviving", "survive --rounds 5 --bug plain-child"),
    verb("bombs", "bombs --short"),
    verb("bombs, uncapped", "bombs --short --bug uncapped"),
    verb("bombs, miscounted", "bombs --short --bug miscounted"),
    verb("leases", "leases"),
    verb("leases, guard without deadline", "leases --rounds 1 --launches 0 --bug guard-without-deadline"),
    verb("leases, late launch", "leases --rounds 0 --launches 20 --bug late-launch"),
    verb("power loss, keeper", "power-loss keeper --images 20"),
    verb("no file sync", "power-loss keeper --images 20 --bug no-file-sync"),
    verb("no folder sync", "power-loss keeper --images 20 --bug no-folder-sync"),
    // Real agents under the product: Claude and Codex always, the others if they can be installed and time is left.
    verb("agents", "agents --ci"),
    // Processes that agents leave behind, with every agent that runs here; a reaper that goes by name, or kills on weak evidence, must be noticed.
    verb("orphans", "orphans"),
    verb("orphans, by name", "orphans --bug reap-by-name"),
    verb("orphans, no doubts", "orphans --bug no-doubts"),
    // Requests made up from the OpenAPI document; a response that is not in it, and a value beyond its bound that is accepted, must be noticed.
    verb("api", "api --cases 2000"),
    verb("api, other status", "api --cases 500 --bug undocumented-status"),
    verb("api, limit cut", "api --cases 500 --bug limit-cut"),
    // Followers of the list, cut off while jobs change and the daemon is killed; a change that is forgotten and a removal that is not told must
    // be noticed.
    verb("rows", "api --rows --jobs 200 --writers 10 --followers 10 --kills 3 --rounds 3"),
    verb("rows, forgotten", "api --rows --jobs 50 --writers 10 --followers 5 --kills 0 --rounds 1 --bug row-forgotten"),
    verb("rows, gone untold", "api --rows --jobs 50 --writers 10 --followers 5 --kills 0 --rounds 1 --bug gone-untold"),
    // Attacks on a user's jobs and daemon; at the end protections are removed, which must be noticed.
    verb("attack", "attack --short"),
    verb("attack, fleet", "attack --fleet --short"),
    // Failures that were reported in public, re-enacted.
    verb("record", "record --short"),
    // A state folder of the first release with live jobs of every kind, taken over in three ways.
    verb("upgrade", "e2e upgrade"),
    // The product.
    verb("chaos", "chaos --seconds 20 --seed 1"),
    verb("chaos, sabotaged", "chaos --bugs"),
    // A fleet with faults.
    verb("fleet", "fleet"),
];

/// Steps that keep both cores busy: fuzzers and models. They have no deadlines, so this is the last lane of its stage, which yields to the
/// others.
#[rustfmt::skip]
const COMPUTING: Lane = &[
    verb("fuzz", "fuzz"),
    verb("model", "model"),
    verb("simulation", "sim --schedules 200000"),
    verb("seeded bugs", "bugs"),
    verb("fuzz, seeded bug", "fuzz --bug cut-in-mid-character --seconds 120"),
    verb("fuzz, seeded colour", "fuzz --bug colour-past-its-line job-output"),
];

/// What runs alone: a look at the executable that all steps ran, and measurements.
#[rustfmt::skip]
const LAST: Lane = &[
    // After every build, since the seeded copy shares a build folder with what ships.
    own("no bug ships", no_bug_ships),
    verb("bench, keeper", "bench keeper --short"),
    verb("scale", "scale laptop --short"),
    verb("bench, product", "bench run --short"),
];

const IN_TURN: &[&[Lane]] = &[&[FIRST], &[BUILDS], &[TESTS], &[TRIALS], &[COMPUTING], &[LAST]];
const IN_LANES: &[&[Lane]] = &[&[FIRST], &[BUILDS], &[TESTS, TRIALS, COMPUTING], &[LAST]];

/// Runs every step, or those that `--only` names. With `--lanes`, steps that wait run beside those that compute.
///
/// Installs the tools first; that time does not count against the budget.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let (stages, arguments) = match arguments {
        ["--lanes"] => (IN_LANES, &[][..]),
        _ => (IN_TURN, arguments),
    };
    let is_whole = arguments.is_empty();
    if is_whole {
        tools::run(&["ci"])?;
    }
    let begin = Instant::now();
    run_steps("ci", stages, arguments, AfterFailure::Stop)?;
    if !is_whole {
        return Ok(());
    }
    let took = begin.elapsed();
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
    // deny checks the crates of every platform; a build fetches only those of its own.
    cargo("fetch --locked --quiet")?;
    // `wrappers` permits a dependency; a permission that is not used yet needs no warning.
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
    let threads = (processors * 3).to_string();
    let words = ["nextest", "run", "--workspace", "--no-fail-fast", "--test-threads", &threads];
    cargo_with(&words, &[("TESTED_EXECUTABLE", &e2e::executable()?)])?;
    Ok(Done::Passed)
}

fn build_executable() -> Result<Done, Failure> {
    e2e::executable().map(|_| Done::Passed)
}

fn build_tests() -> Result<Done, Failure> {
    cargo("test --workspace --no-run --quiet").map(|()| Done::Passed)
}

fn build_proof() -> Result<Done, Failure> {
    proof::build(&Build::Plain).map(|()| Done::Passed)
}

fn build_seeded() -> Result<Done, Failure> {
    bugs::build().map(|()| Done::Passed)
}

/// Looks for seeded bugs in the executable that the trials run.
fn no_bug_ships() -> Result<Done, Failure> {
    // A program of the copy must not pass for an up-to-date build of the workspace.
    e2e::executable()?;
    seeded::shipped::check_tried().map(|()| Done::Passed)
}
