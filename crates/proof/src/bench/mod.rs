//! Benches: our journal beside somebody else's program doing the same SQL on the same engine, in one run.
//!
//! Rates of one machine at one moment mean little; their ratio does. Rounds alternate between the two, and the
//! median of each counts.

pub mod postgres;
pub mod table;

use crate::args::Args;

/// Runs `bench store [--store postgres] [--rounds N] [--seconds S] [--stored N] [--tail N] [--only NAME] [--json]`.
pub fn main(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match args.split_first() {
        Some((what, rest)) if what == "store" => postgres::bench(&Args::new(rest)),
        _ => {
            Err("bench store [--rounds N] [--seconds S] [--stored N] [--tail N] [--only NAME] [--json]"
                .into())
        }
    }
}
