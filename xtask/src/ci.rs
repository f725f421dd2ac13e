//! `ci`: everything a change must pass, one step after the other, until the first that fails.
//!
//! The steps are a table. A step that needs something this machine cannot have says that it was skipped, and why;
//! none is left out in silence.

use std::time::{Duration, Instant};

use crate::program::{Failure, Outcome, cargo, cargo_with, succeeds};
use crate::{contract, docs, fuzz, proof, tidy, tools, trials};

/// How long all of it may take on two cores from a clean clone. Longer, and people stop running it.
const BUDGET: Duration = Duration::from_secs(25 * 60);

/// What a step that did not fail has to say.
enum Done {
    Passed,
    Skipped(&'static str),
}

struct Step {
    name: &'static str,
    run: fn() -> Result<Done, Failure>,
}

/// A step that can only pass or fail.
macro_rules! step {
    ($name:literal, $run:expr) => {
        Step { name: $name, run: || $run.map(|()| Done::Passed) }
    };
}

#[rustfmt::skip] // One row, one step.
const STEPS: &[Step] = &[
    step!("tools", tools::run(&[])),
    step!("format", cargo("fmt --all --check")),
    step!("tidy", tidy::run(&[])),
    step!("clippy", cargo("clippy --workspace --all-targets -- -D warnings")),
    // The workspace as a whole compiles the seeded bugs in; what is shipped does not.
    step!("clippy, as shipped", cargo("clippy -- -D warnings")),
    step!("docs", cargo_with(&["doc", "--no-deps", "--workspace"], &[("RUSTDOCFLAGS", "-Dwarnings")])),
    // A wrapper is a permission; that nobody uses it yet is not worth a warning.
    step!("dependencies", cargo("deny --offline check --allow unused-wrapper bans licenses sources")),
    Step { name: "advisories", run: advisories },
    step!("tests", tests()),
    step!("README and book", docs::run(&[])),
    step!("contract", contract::run(&["--require"])),
    // The long form is `torture` with three repeats or more, which also decides on times, and with shim and guard killed.
    step!("torture", trials::run("torture", &["--repeats", "1"])),
    step!("torture, stand-ins", trials::run("torture", &["--bugs"])),
    // The long form is `fuzz --seconds 600`.
    step!("fuzz", fuzz::run(&[])),
    step!("fuzz, seeded bug", fuzz::run(&["--bug", "cut-in-mid-character", "--seconds", "120"])),
    step!("model", proof::run("model", &[])),
    // The long form is 1,000,000 schedules.
    step!("simulation", proof::run("sim", &["--schedules", "200000"])),
    step!("seeded bugs", proof::run("bugs", &[])),
    // The long forms, 200 kills and 60 images each, are run by hand.
    step!("crash, SQLite", proof::run("crash", &["sqlite", "--rounds", "40"])),
    step!("crash, PostgreSQL", proof::run("crash", &["postgres", "--rounds", "8"])),
    step!("cut connections", proof::run("crash", &["postgres-cut", "--cuts", "500"])),
    step!("power loss, SQLite", proof::run("power-loss", &["sqlite", "--images", "20"])),
    step!("power loss, PostgreSQL", proof::run("power-loss", &["postgres", "--images", "4"])),
    // Each checker must fail when a store does not sync.
    step!("unsynced SQLite", proof::run("power-loss", &["sqlite", "--images", "5", "--bug", "ack-before-sync"])),
    step!("unsynced PostgreSQL", proof::run("power-loss", &["postgres", "--images", "5", "--bug", "fsync-off"])),
    // The keeper. The long forms are 100 kills, 60 images and 5 GB; each checker must fail when its bug is seeded.
    step!("kill points", trials::run("kill-points", &[])),
    step!("fault points", trials::run("fault-points", &[])),
    step!("scope", trials::run("scope", &[])),
    step!("scope, none", trials::run("scope", &["--bug", "no-scope"])),
    step!("survive", trials::run("survive", &["--rounds", "25"])),
    step!("not surviving", trials::run("survive", &["--rounds", "5", "--bug", "plain-child"])),
    step!("bombs", trials::run("bombs", &["--short"])),
    step!("bombs, uncapped", trials::run("bombs", &["--short", "--bug", "uncapped"])),
    step!("bombs, miscounted", trials::run("bombs", &["--short", "--bug", "miscounted"])),
    step!("power loss, keeper", trials::run("power-loss", &["keeper", "--images", "20"])),
    step!("no file sync", trials::run("power-loss", &["keeper", "--images", "20", "--bug", "no-file-sync"])),
    step!("no folder sync", trials::run("power-loss", &["keeper", "--images", "20", "--bug", "no-folder-sync"])),
    step!("bench, keeper", trials::run("bench", &["keeper", "--short"])),
    // Real agents under the product: Claude and Codex always, the others as far as they can be had and the time goes.
    step!("agents", trials::run("agents", &["--ci"])),
    // What others leave behind, with every agent that runs here; a reaper that goes by names, or has no doubts, must be noticed.
    step!("orphans", trials::run("orphans", &[])),
    step!("orphans, by name", trials::run("orphans", &["--bug", "reap-by-name"])),
    step!("orphans, no doubts", trials::run("orphans", &["--bug", "no-doubts"])),
    // What anybody could try against a user, with guards taken away at the end; the long form throws larger bombs.
    step!("attack", trials::run("attack", &["--short"])),
    // The product. The long forms are 3 minutes and more, a thousand jobs and a hundred thousand, and five rounds.
    step!("chaos", trials::run("chaos", &["--seconds", "20"])),
    step!("chaos, sabotaged", trials::run("chaos", &["--bugs"])),
    step!("scale", trials::run("scale", &["laptop", "--short"])),
    step!("bench, product", trials::run("bench", &["run", "--short"])),
];

/// Runs every step, and says how long each took.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if !arguments.is_empty() {
        return Err(Failure::new("usage: cargo xtask ci"));
    }
    let begin = Instant::now();
    let mut report = Vec::new();
    let mut failed = None;
    for step in STEPS {
        eprintln!("\n── {} ──", step.name);
        let step_begin = Instant::now();
        let done = (step.run)();
        let verdict = match &done {
            Ok(Done::Passed) => "ok".to_owned(),
            Ok(Done::Skipped(why)) => format!("SKIPPED: {why}"),
            Err(_) => "FAILED".to_owned(),
        };
        report.push(format!("{:<22} {:>7.1} s  {verdict}", step.name, step_begin.elapsed().as_secs_f64()));
        if let Err(failure) = done {
            failed = Some(Failure { why: format!("{}: {}", step.name, failure.why), ..failure });
            break;
        }
    }
    println!("\n{}", report.join("\n"));
    for step in &STEPS[report.len()..] {
        println!("{:<22} {:>9}  not run", step.name, "");
    }
    let took = begin.elapsed();
    println!("{:<22} {:>7.1} s  of {} s", "total", took.as_secs_f64(), BUDGET.as_secs());
    if took > BUDGET {
        println!("The budget was exceeded: make a step cheaper before adding another.");
    }
    failed.map_or(Ok(()), Err)
}

/// Runs all tests. Many of them wait most of their time, so there are three at once for each processor.
fn tests() -> Outcome {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    cargo(&format!("nextest run --workspace --no-fail-fast --test-threads {}", processors * 3))
}

/// Checks known vulnerabilities, if their database can be had.
fn advisories() -> Result<Done, Failure> {
    if !succeeds("cargo", &["deny", "fetch", "db"]) {
        return Ok(Done::Skipped("the advisory database cannot be fetched from here"));
    }
    cargo("deny --offline check advisories").map(|()| Done::Passed)
}
