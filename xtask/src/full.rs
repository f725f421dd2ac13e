//! `full`: everything that takes too long for `ci`. It runs for hours, so it continues after a failure.

use crate::program::Outcome;
use crate::steps::{AfterFailure, Lane, run as run_steps, verb};
use crate::tools;

#[rustfmt::skip] // One row, one step.
const STEPS: Lane = &[
    // Long forms of steps of `ci`.
    verb("model", "model --full"),
    verb("simulation", "sim --schedules 1000000"),
    verb("crash, SQLite", "crash sqlite --rounds 200"),
    verb("crash, PostgreSQL", "crash postgres --rounds 200"),
    verb("cut connections", "crash postgres-cut --cuts 1000"),
    verb("power loss, SQLite", "power-loss sqlite --images 60"),
    verb("power loss, PostgreSQL", "power-loss postgres --images 60"),
    verb("power loss, keeper", "power-loss keeper --images 60"),
    verb("torture", "torture --repeats 3"),
    verb("torture, shim killed", "torture --kill shim"),
    verb("torture, guard killed", "torture --kill guard"),
    verb("kill points", "kill-points --all"),
    verb("fault points", "fault-points --all"),
    verb("survive", "survive --rounds 100"),
    verb("bombs", "bombs"),
    verb("agents", "agents"),
    verb("agents, compared", "agents --compare"),
    verb("orphans", "orphans"),
    verb("api", "api"),
    verb("rows", "api --rows"),
    verb("attack", "attack"),
    verb("attack, fleet", "attack --fleet"),
    verb("record", "record"),
    verb("record, 0.1.0", "record --against 0.1.0"),
    verb("fuzz", "fuzz --seconds 600"),
    verb("chaos", "chaos --minutes 120"),
    // Too long for `ci`: the moment must come, which can take a minute. It ends when the bug is noticed.
    verb("chaos, waits unchecked", "chaos --seconds 60 --bug wait-unchecked"),
    verb("fleet", "fleet --histories 300"),
    verb("fleet, seeded bugs", "fleet --bugs"),
    verb("scale", "scale laptop"),
    // Not in `ci`.
    verb("mutants", "mutants"),
    verb("bench, store", "bench store"),
    verb("bench, keeper", "bench keeper"),
    verb("bench, product", "bench run"),
    verb("package", "package"),
    verb("bare machine", "bare"),
    verb("bare machine, package", "bare .ci/run package"),
];

/// Runs every step, or those that `--only` names, and reports every failure at the end.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if arguments.is_empty() {
        tools::run(&["--all"])?;
    }
    run_steps("full", &[&[STEPS]], arguments, AfterFailure::GoOn)
}
