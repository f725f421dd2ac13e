//! `sim`: many schedules, with figures at the end.

use std::process::ExitCode;
use std::time::Instant;

use super::{AGAIN_ONE_IN, Outcome, Simulation, many};
use crate::{engine_sim, sim};

const USAGE: &str = "usage: sim [--engine] --schedules N [--seed S] [--threads T] [--bug NAME]";

struct Options {
    simulation: &'static Simulation,
    schedules: u64,
    seed: u64,
    threads: u64,
    /// The bug that is switched on in this process.
    bug: Option<String>,
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options =
        Options { simulation: &sim::SIMULATION, schedules: 100_000, seed: 1, threads: 2, bug: None };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name == "--engine" {
            options.simulation = &engine_sim::SIMULATION;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value; {USAGE}"))?;
        let number =
            || value.replace('_', "").parse::<u64>().map_err(|_| format!("{name}: `{value}` is no number"));
        match name.as_str() {
            "--schedules" => options.schedules = number()?,
            "--seed" => options.seed = number()?,
            "--threads" => options.threads = number()?.max(1),
            "--bug" => options.bug = Some(value.clone()),
            _ => return Err(format!("unknown option {name}; {USAGE}")),
        }
    }
    Ok(options)
}

/// Runs the verb.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the verb is for")]
pub fn main(arguments: &[String]) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let outcome = many(options.simulation, options.schedules, options.seed, options.threads);
    let seconds = begin.elapsed().as_secs_f64();
    if options.schedules == 1 {
        (options.simulation.run)(options.seed, true).lines.iter().for_each(|line| println!("{line}"));
    }
    let bug = options.bug.as_ref().map_or(String::new(), |bug| format!(" with the bug {bug}"));
    if let Some((seed, violation)) = &outcome.violation {
        println!("VIOLATION{bug}: {}", violation.name);
        println!("  {}", violation.detail);
        println!("  found after {} schedules, seed {seed}", seed.wrapping_sub(options.seed) + 1);
        let bug = options.bug.as_ref().map_or(String::new(), |bug| format!(" --bug {bug}"));
        println!("  replay: cargo xtask sim{} --seed {seed} --schedules 1{bug}", options.simulation.flag);
        return ExitCode::FAILURE;
    }
    for line in outcome.coverage.lines() {
        println!("{line}");
    }
    println!(
        "{} schedules{bug}, 0 violations, {:.1} s, {:.0} schedules/s on {} threads",
        outcome.schedules,
        seconds,
        outcome.schedules as f64 / seconds,
        options.threads
    );
    println!(
        "{:.1} steps and {:.1} faults a schedule, at least {}",
        outcome.steps as f64 / outcome.schedules as f64,
        outcome.faults.0 as f64 / outcome.schedules as f64,
        outcome.faults.1
    );
    println!("trace hash {:016x}", outcome.hash);
    println!("of one in {AGAIN_ONE_IN}, run twice: {:016x} and {:016x}", outcome.again.0, outcome.again.1);
    verdict(options.simulation, &outcome)
}

#[expect(clippy::print_stdout, reason = "this is what the verb is for")]
fn verdict(simulation: &Simulation, outcome: &Outcome) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    if outcome.again.0 != outcome.again.1 {
        println!("FAILED: the same seeds gave another trace");
        code = ExitCode::FAILURE;
    }
    if outcome.schedules > 0 && outcome.faults.1 < simulation.faults_min {
        println!("FAILED: a schedule had fewer than {} faults", simulation.faults_min);
        code = ExitCode::FAILURE;
    }
    let gaps = outcome.coverage.gaps();
    if !gaps.is_empty() && outcome.schedules >= simulation.coverage_from {
        for (fault, phase) in gaps {
            println!("FAILED: no {} while {}", fault, phase.as_str());
        }
        code = ExitCode::FAILURE;
    }
    code
}
