//! `sim`: many schedules, on several threads, with figures at the end.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lastword_core::seeded::{self, Bug};

use super::fault::Coverage;
use super::world::{Violation, run};

/// One schedule in so many is run a second time, to see that its seed alone decides it.
const AGAIN_ONE_IN: u64 = 100;

/// Schedules below which an empty cell of the coverage table says nothing.
const COVERAGE_SCHEDULES_MIN: u64 = 100_000;

const USAGE: &str = "usage: sim --schedules N [--seed S] [--threads T] [--bug NAME]";

/// What came of many schedules.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many were run.
    pub schedules: u64,
    /// The hashes of all traces, combined so that their order does not matter.
    pub hash: u64,
    /// The same of those that were run for a second time, and what it was the first time.
    pub again: (u64, u64),
    /// The first schedule that broke a promise: its seed, and how.
    pub violation: Option<(u64, Violation)>,
    /// Where faults struck.
    pub coverage: Coverage,
    /// Faults in all, and in the schedule with the fewest.
    pub faults: (u64, u32),
    /// Steps in all.
    pub steps: u64,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.schedules += other.schedules;
        self.hash = self.hash.wrapping_add(other.hash);
        self.again.0 = self.again.0.wrapping_add(other.again.0);
        self.again.1 = self.again.1.wrapping_add(other.again.1);
        self.coverage.add(&other.coverage);
        self.faults.0 += other.faults.0;
        self.faults.1 = self.faults.1.min(other.faults.1);
        self.steps += other.steps;
        let earlier = match (&self.violation, &other.violation) {
            (Some((mine, _)), Some((theirs, _))) => theirs < mine,
            (None, _) => true,
            _ => false,
        };
        if earlier {
            self.violation = other.violation;
        }
    }
}

/// Runs up to `schedules` schedules from `seed` on with `bug` switched on, until one breaks a promise.
pub fn find(bug: Option<Bug>, schedules: u64, seed: u64) -> Outcome {
    seeded::switch(bug);
    let outcome = many(schedules, seed, 2);
    seeded::switch(None);
    outcome
}

/// Runs schedules on some threads. What comes of it does not depend on how many.
pub fn many(schedules: u64, seed: u64, threads: u64) -> Outcome {
    let first_bad = AtomicU64::new(u64::MAX);
    let mut total = Outcome { faults: (0, u32::MAX), ..Outcome::default() };
    std::thread::scope(|scope| {
        let share = |thread: u64| {
            let first_bad = &first_bad;
            move || part(schedules, seed, thread, threads, first_bad)
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(share(thread))).collect();
        for worker in workers {
            total.add(worker.join().expect("a schedule does not panic"));
        }
    });
    total
}

fn part(schedules: u64, seed: u64, thread: u64, threads: u64, first_bad: &AtomicU64) -> Outcome {
    let mut part = Outcome { faults: (0, u32::MAX), ..Outcome::default() };
    let mut no = thread;
    while no < schedules && no < first_bad.load(Ordering::Relaxed) {
        let schedule = run(seed.wrapping_add(no), false);
        part.schedules += 1;
        part.hash = part.hash.wrapping_add(schedule.hash);
        part.coverage.add(&schedule.coverage);
        part.faults = (part.faults.0 + u64::from(schedule.faults), part.faults.1.min(schedule.faults));
        part.steps += u64::from(schedule.steps);
        if no.is_multiple_of(AGAIN_ONE_IN) {
            part.again.0 = part.again.0.wrapping_add(schedule.hash);
            part.again.1 = part.again.1.wrapping_add(run(seed.wrapping_add(no), false).hash);
        }
        if let Some(violation) = schedule.violation {
            part.violation = Some((seed.wrapping_add(no), violation));
            first_bad.fetch_min(no, Ordering::Relaxed);
            break;
        }
        no += threads;
    }
    part
}

struct Options {
    schedules: u64,
    seed: u64,
    threads: u64,
    bug: Option<Bug>,
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { schedules: 100_000, seed: 1, threads: 2, bug: None };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value; {USAGE}"))?;
        let number =
            || value.replace('_', "").parse::<u64>().map_err(|_| format!("{name}: `{value}` is no number"));
        match name.as_str() {
            "--schedules" => options.schedules = number()?,
            "--seed" => options.seed = number()?,
            "--threads" => options.threads = number()?.max(1),
            "--bug" => {
                let bug = Bug::ALL.iter().find(|bug| bug.name() == value);
                options.bug = Some(*bug.ok_or_else(|| format!("there is no bug `{value}`"))?);
            }
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
    seeded::switch(options.bug);
    let begin = Instant::now();
    let outcome = many(options.schedules, options.seed, options.threads);
    let seconds = begin.elapsed().as_secs_f64();
    if options.schedules == 1 {
        run(options.seed, true).lines.iter().for_each(|line| println!("{line}"));
    }
    let bug = options.bug.map_or(String::new(), |bug| format!(" with the bug {}", bug.name()));
    if let Some((seed, violation)) = &outcome.violation {
        println!("VIOLATION{bug}: {}", violation.name);
        println!("  {}", violation.detail);
        println!("  found after {} schedules, seed {seed}", seed.wrapping_sub(options.seed) + 1);
        let bug = options.bug.map_or(String::new(), |bug| format!(" --bug {}", bug.name()));
        println!("  replay: cargo xtask sim --seed {seed} --schedules 1{bug}");
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
    verdict(&outcome)
}

#[expect(clippy::print_stdout, reason = "this is what the verb is for")]
fn verdict(outcome: &Outcome) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    if outcome.again.0 != outcome.again.1 {
        println!("FAILED: the same seeds gave another trace");
        code = ExitCode::FAILURE;
    }
    if outcome.schedules > 0 && outcome.faults.1 < 3 {
        println!("FAILED: a schedule had fewer than 3 faults");
        code = ExitCode::FAILURE;
    }
    let gaps = outcome.coverage.gaps();
    if !gaps.is_empty() && outcome.schedules >= COVERAGE_SCHEDULES_MIN {
        for (fault, phase) in gaps {
            println!("FAILED: no {} while {}", fault.name(), phase.as_str());
        }
        code = ExitCode::FAILURE;
    }
    code
}
