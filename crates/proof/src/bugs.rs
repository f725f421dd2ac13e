//! Seeded bugs: a rule is broken in this process, and a checker must notice.
//!
//! `cargo xtask bugs` builds this program from the copy of the workspace that has every file of `bugs/` in it, and starts it once for
//! each with that bug switched on. The model, the simulations, the conformance suite, a real PostgreSQL (for the feed and for a server that is put
//! back) and the model of a fleet check it in turn; a bug of the engine is left to its simulation, and some to the model of a fleet. A bug that
//! no checker finds fails the run, and so does a violation in sound code.

#![expect(clippy::print_stdout, reason = "its verb reports to a person")]

use std::time::Instant;

use crate::crash::postgres::cut_connections;
use crate::late_commit::is_skipped;
use crate::pg::{Server, Settings};
use crate::schedules::{Simulation, many};
use crate::sim::regressions::SEEDS;
use crate::{backends, conformance, engine_sim, lost, model, sim};

/// Worlds the model looks at for one bug, breadth first.
const WORLDS: usize = 150_000;

/// Schedules the simulation runs for one bug.
const SCHEDULES: u64 = 30_000;

/// Schedules the simulation of the engine runs for a bug of another room.
const ENGINE_SCHEDULES: u64 = 2_000;

/// Schedules it runs for a bug of the engine. The rarest shows within a third of them.
const ENGINE_SCHEDULES_MAX: u64 = 6_000;

/// Answers that are kept back for one bug: enough for every statement of every verb.
const CUTS: u64 = 60;

/// A checker that must notice a bug by itself, even if an earlier one did.
enum Must {
    /// These cases of the conformance suite, over the journal in memory.
    Cases(&'static [&'static str]),
    /// The simulation.
    Simulation,
    /// The model of a fleet.
    Fleet,
    /// Connections that are cut between commit and answer.
    Cuts,
}

#[rustfmt::skip] // One row, one bug and checker.
const MUST: &[(&str, Must)] = &[
    ("no-fence", Must::Cases(&[
        "c34_a_write_by_another_owner_is_refused",
        "c34_a_write_to_a_job_nobody_holds_is_refused",
        "c35_a_write_of_an_earlier_claim_is_refused",
        "c35_a_write_of_an_earlier_life_is_refused",
        "c35_a_takeover_fences_the_old_owner",
        "a_write_under_another_instance_is_refused",
    ])),
    ("no-version-check", Must::Cases(&[
        "c03_a_request_at_an_old_version_is_an_error_and_not_stored",
        "c25_of_many_writers_at_one_version_exactly_one_wins",
        "c06_a_request_at_a_version_before_the_claim_is_not_lost",
        "c42_a_refused_last_word_releases_nothing",
    ])),
    ("append-twice", Must::Cases(&[
        "c10_a_repeated_append_is_stored_once",
        "c10_a_repeat_after_others_wrote_is_a_success",
        "c10_a_repeat_after_a_takeover_is_a_success",
        "c10_a_repeated_last_word_is_a_success",
    ])),
    ("claim-twice", Must::Cases(&[
        "c33_concurrent_claimers_never_share_a_job",
        "c34_a_job_of_a_live_owner_is_not_taken_over",
    ])),
    ("take-over-live", Must::Cases(&[
        "c34_a_job_of_a_live_owner_is_not_taken_over",
        "c102_a_life_is_ended_only_at_the_beat_that_was_seen",
    ])),
    ("ended-not-absorbing", Must::Cases(&[
        "c23_a_second_last_word_is_refused",
        "c24_a_request_after_the_end_changes_nothing",
        "c31_a_late_report_carries_nothing_else_in",
    ])),
    ("remembered-slots", Must::Cases(&["a_stored_group_binds_every_claim"])),
    ("pause-ignored", Must::Cases(&["a_stored_group_binds_every_claim"])),
    ("ended-at-any-beat", Must::Cases(&["c102_a_life_is_ended_only_at_the_beat_that_was_seen"])),
    ("foreign-repeat", Must::Cases(&["a_repeat_under_another_instance_is_refused"])),
    ("lost-read-counts", Must::Cases(&["a_request_that_was_read_in_another_instance_conflicts"])),
    ("lost-read-counts", Must::Simulation),
    ("budget-ignored", Must::Cases(&["a_budget_that_is_used_up_closes_its_group_for_the_day"])),
    ("slot-miscounted", Must::Cases(&["a_stored_group_binds_every_claim"])),
    ("no-fence", Must::Simulation),
    ("ack-before-sync", Must::Simulation),
    ("torn-accepted", Must::Simulation),
    ("new-life-ends-trees", Must::Simulation),
    ("retry-after-cancel", Must::Simulation),
    ("last-word-before-empty", Must::Simulation),
    ("idle-message-sleeps", Must::Simulation),
    ("idle-told-unslotted", Must::Simulation),
    ("no-pause-after-instance", Must::Fleet),
    ("foreign-repeat", Must::Fleet),
    ("take-over-live", Must::Fleet),
    ("append-twice", Must::Cuts),
];

/// The checker that found a bug, and what it saw.
struct Finding {
    by: &'static str,
    how: String,
}

/// Runs the verb `bugs [NAME [--engine | --fleet]]`: asks the checkers about the bug that is switched on, or about sound code.
pub async fn main(arguments: &[String]) -> Result<(), String> {
    // A case that fails panics, and here that is what it should do.
    std::panic::set_hook(Box::new(|_| {}));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = Instant::now();
    let (name, found) = match words.as_slice() {
        [] => return sound().await,
        [name] => (*name, ask().await),
        [name, "--engine"] => {
            (*name, ask_simulation("engine", &engine_sim::SIMULATION, ENGINE_SCHEDULES_MAX))
        }
        [name, "--fleet"] => (*name, ask_fleet()),
        _ => return Err("usage: bugs [NAME [--engine | --fleet]]".to_owned()),
    };
    let Finding { by, how } = found.ok_or_else(|| format!("{name:<28} NOT FOUND"))?;
    let mut also = Vec::new();
    let is_done = |must: &Must| matches!(must, Must::Simulation) && by == "simulation";
    for (_, must) in MUST.iter().filter(|(bug, must)| *bug == name && !is_done(must)) {
        also.push(must.find().await.map_err(|why| format!("{name:<28} NOT FOUND by {why}"))?);
    }
    for (seed, _, what) in SEEDS.iter().filter(|(_, bug, _)| *bug == name) {
        if sim::run(*seed, false).violation.is_none() {
            return Err(format!("{name:<28} seed {seed} does not meet it any more, find another: {what}"));
        }
        also.push(format!("seed {seed}"));
    }
    let also = if also.is_empty() { String::new() } else { format!("; also {}", also.join(", ")) };
    println!("{name:<28} {by:<12} {:>5.1} s  {how}{also}", started.elapsed().as_secs_f64());
    Ok(())
}

async fn sound() -> Result<(), String> {
    match ask().await {
        Some(Finding { by, how }) => Err(format!("nothing is broken, and yet the {by} says: {how}")),
        None => {
            println!("sound code: no checker complains");
            Ok(())
        }
    }
}

fn ask_simulation(by: &'static str, simulation: &Simulation, schedules: u64) -> Option<Finding> {
    let (seed, violation) = many(simulation, schedules, 1, 2).violation?;
    Some(Finding { by, how: format!("{} (seed {seed})", violation.name) })
}

fn ask_fleet() -> Option<Finding> {
    let (rule, steps) = model::fleet::find()?;
    Some(Finding { by: "fleet", how: format!("{rule} ({steps} steps)") })
}

async fn ask() -> Option<Finding> {
    if let Some((rule, way)) = model::find(WORLDS) {
        return Some(Finding { by: "model", how: format!("{rule} ({} steps)", way.len()) });
    }
    let simulated = ask_simulation("simulation", &sim::SIMULATION, SCHEDULES)
        .or_else(|| ask_simulation("engine", &engine_sim::SIMULATION, ENGINE_SCHEDULES));
    if simulated.is_some() {
        return simulated;
    }
    if let Some(broken) = conformance::run_all(backends::memory).await.into_iter().next() {
        return Some(Finding { by: "conformance", how: broken.case.to_owned() });
    }
    if lost::gives_out_too_early().await != Ok(false) {
        let how = "a new instance does not pause".to_owned();
        return Some(Finding { by: "lost", how });
    }
    let server = || Server::start(Settings::default()).expect("PostgreSQL starts");
    if lost::is_missed(server()).await != Ok(false) {
        let how = "a server that was put back is not noticed".to_owned();
        return Some(Finding { by: "lost", how });
    }
    // Only where transactions commit out of order can a feed skip one.
    if is_skipped(&server()).await {
        let how = "the feed skips a transaction that commits late".to_owned();
        return Some(Finding { by: "late commit", how });
    }
    // It takes the longest.
    ask_fleet()
}

impl Must {
    /// Asks this checker. Says what it saw; or that it saw nothing.
    async fn find(&self) -> Result<String, String> {
        let server = || Server::start(Settings::default()).map_err(|error| format!("PostgreSQL: {error}"));
        match self {
            Must::Cases(cases) => {
                let broken = conformance::run_all(backends::memory).await;
                let blind = cases.iter().find(|case| broken.iter().all(|broken| broken.case != **case));
                match blind {
                    Some(case) => Err(format!("conformance: {case}")),
                    None => Ok(format!("conformance ({} cases)", broken.len())),
                }
            }
            Must::Simulation => ask_simulation("simulation", &sim::SIMULATION, SCHEDULES)
                .map(|finding| format!("simulation: {}", finding.how))
                .ok_or_else(|| "the simulation".to_owned()),
            Must::Fleet => ask_fleet()
                .map(|finding| format!("fleet: {}", finding.how))
                .ok_or_else(|| "the model of a fleet".to_owned()),
            Must::Cuts => match cut_connections(&server()?, CUTS, 7).await {
                Err(_) => Ok("cut connections".to_owned()),
                Ok(_) => Err("cut connections".to_owned()),
            },
        }
    }
}
