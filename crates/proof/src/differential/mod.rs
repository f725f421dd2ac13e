//! Random operations on two journals, which must answer alike.
//!
//! A seed makes a sequence of operations; each journal carries it out by itself, with the lives and fences it gave.
//! Answers are compared after what may differ was made equal: the numbers of lives, the names of places in the feed,
//! the order in which orphans are listed. Leases are over or long, for journals with a clock of their own.

mod answer;
mod driver;
mod operation;

use std::fmt;

use lastword_store::Store;

pub use answer::{Answer, Coverage};
use driver::Driver;
pub use operation::{Operation, Operations};

/// Where two journals went apart.
#[derive(Debug)]
pub struct Divergence {
    /// What the journals are called on the command line.
    pub pair: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// How many operations it was to have.
    pub steps: usize,
    /// The operation after which they differed, counted from one.
    pub step: usize,
    /// That operation.
    pub operation: String,
    /// What the one answered, and what the other.
    pub answers: [String; 2],
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { pair, seed, steps, step, operation, answers: [one, other] } = self;
        writeln!(f, "{pair}: at operation {step} of seed {seed} the journals differ: {operation}")?;
        writeln!(f, "  one:   {one}")?;
        writeln!(f, "  other: {other}")?;
        write!(f, "replay: cargo run -p lastword-proof -- differential {pair} --seed {seed} --steps {steps}")
    }
}

/// Carries out `steps` operations of `seed` on both journals, which must be empty, and compares every answer, and
/// at the end everything they hold.
pub async fn compare<A: Store, B: Store>(
    pair: &'static str,
    seed: u64,
    steps: usize,
    (one, other): (A, B),
) -> Result<Coverage, Box<Divergence>> {
    let (mut one, mut other) = (Driver::new(one), Driver::new(other));
    let mut coverage = Coverage::default();
    let script = Operations::new(seed).take(steps).chain([Operation::Everything]);
    for (place, operation) in script.enumerate() {
        let answers = [one.carry_out(&operation).await, other.carry_out(&operation).await];
        if answers[0] != answers[1] || answers.iter().any(Answer::is_failure) {
            return Err(Box::new(Divergence {
                pair,
                seed,
                steps,
                step: place + 1,
                operation: format!("{operation:?}"),
                answers: answers.map(|answer| format!("{answer:?}")),
            }));
        }
        coverage.count(&operation, &answers[0]);
    }
    Ok(coverage)
}
