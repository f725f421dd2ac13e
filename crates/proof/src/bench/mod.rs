//! Benches: our journal beside the bare engine, in one run, round by round in turn.
//!
//! Absolute figures change with the machine and what else it does; ratios of rounds that ran side by side do not.

pub mod sqlite;

use crate::args::Args;

/// Runs `bench store [sqlite] [--rounds N] [--stored EVENTS] [--json]`.
pub fn main(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match args {
        [what, engine, rest @ ..] if what == "store" && engine == "sqlite" => sqlite::bench(&Args::new(rest)),
        [what, rest @ ..] if what == "store" => sqlite::bench(&Args::new(rest)),
        _ => Err("bench store [sqlite] [--rounds N] [--stored EVENTS] [--json]".into()),
    }
}

/// Returns the middle one of several figures.
///
/// # Panics
/// If there is none.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
