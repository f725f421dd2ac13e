//! Many schedules of a simulation: run on several threads, compared, counted and told.
//!
//! - [`Simulation`]: what is run; [`Run`]: what came of one schedule; [`many`]: of many.
//! - `coverage`: where faults struck; `trace`: what happened, as a number to compare and as lines to read; `queue`: what is
//!   to happen.
//! - [`verb`]: all of that from the command line.

mod coverage;
mod queue;
mod trace;
pub mod verb;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use coverage::faults;
pub use coverage::{Coverage, Table};
pub(crate) use queue::Queue;
pub(crate) use trace::{Trace, fnv};

/// One schedule in so many is run a second time, to see that its seed alone decides it.
pub(crate) const AGAIN_ONE_IN: u64 = 100;

/// Something that runs the schedule of a seed.
#[derive(Debug)]
pub struct Simulation {
    /// The flag that chooses it on the command line; empty for the one that needs none.
    pub flag: &'static str,
    /// Runs the schedule of a seed; with `true` it keeps lines to read.
    pub run: fn(u64, bool) -> Run,
    /// Its faults.
    pub table: &'static Table,
    /// Faults that strike in each schedule at least.
    pub faults_min: u32,
    /// Schedules below which an empty cell of the coverage table says nothing.
    pub coverage_from: u64,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub name: &'static str,
    /// How.
    pub detail: String,
}

/// What came of a schedule.
#[derive(Debug)]
pub struct Run {
    /// The hash of everything that happened.
    pub hash: u64,
    /// What was broken, if anything.
    pub violation: Option<Violation>,
    /// Where faults struck.
    pub coverage: Coverage,
    /// How many faults struck.
    pub faults: u32,
    /// Steps taken.
    pub steps: u32,
    /// The trace, if it was asked for.
    pub lines: Vec<String>,
}

/// What came of many schedules.
#[derive(Clone, Debug)]
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
    fn none(table: &'static Table) -> Outcome {
        Outcome {
            schedules: 0,
            hash: 0,
            again: (0, 0),
            violation: None,
            coverage: Coverage::of(table),
            faults: (0, u32::MAX),
            steps: 0,
        }
    }

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

/// Runs up to `schedules` schedules from `seed` on, on some threads, until one breaks a promise. What comes of it does not depend
/// on how many threads there are.
pub fn many(simulation: &Simulation, schedules: u64, seed: u64, threads: u64) -> Outcome {
    let first_bad = AtomicU64::new(u64::MAX);
    let mut total = Outcome::none(simulation.table);
    std::thread::scope(|scope| {
        let share = |thread: u64| {
            let first_bad = &first_bad;
            move || part(simulation, schedules, seed, (thread, threads), first_bad)
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(share(thread))).collect();
        for worker in workers {
            total.add(worker.join().expect("a schedule does not panic"));
        }
    });
    total
}

/// Runs every `threads`th schedule, from the `thread`th on.
fn part(
    simulation: &Simulation,
    schedules: u64,
    seed: u64,
    (thread, threads): (u64, u64),
    first_bad: &AtomicU64,
) -> Outcome {
    let mut part = Outcome::none(simulation.table);
    let mut no = thread;
    while no < schedules && no < first_bad.load(Ordering::Relaxed) {
        let schedule = (simulation.run)(seed.wrapping_add(no), false);
        part.schedules += 1;
        part.hash = part.hash.wrapping_add(schedule.hash);
        part.coverage.add(&schedule.coverage);
        part.faults = (part.faults.0 + u64::from(schedule.faults), part.faults.1.min(schedule.faults));
        part.steps += u64::from(schedule.steps);
        if no.is_multiple_of(AGAIN_ONE_IN) {
            part.again.0 = part.again.0.wrapping_add(schedule.hash);
            part.again.1 = part.again.1.wrapping_add((simulation.run)(seed.wrapping_add(no), false).hash);
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
