//! Benches: our journal beside a foreign program with the same SQL on the same engine, in one run.
//!
//! Rates of one machine at one moment mean little; their ratio does. Rounds alternate between the two, and the
//! median of each counts.

pub mod link;
pub mod postgres;
pub mod sqlite;
pub mod table;

use crate::args::Args;

/// Runs `bench store [sqlite|postgres] [flags]`, both engines when none is named; or `bench link`.
pub fn main(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match args {
        [what, engine, rest @ ..] if what == "store" && engine == "sqlite" => sqlite::bench(&Args::new(rest)),
        [what, engine, rest @ ..] if what == "store" && engine == "postgres" => {
            postgres::bench(&Args::new(rest))
        }
        [what, rest @ ..] if what == "store" => {
            sqlite::bench(&Args::new(rest))?;
            postgres::bench(&Args::new(rest))
        }
        [what, rest @ ..] if what == "link" => link::bench(&Args::new(rest)),
        _ => Err("bench store [sqlite|postgres] [--only PART] [--rounds N] [--stored EVENTS] [--json], or bench link [--rounds N]".into()),
    }
}
