//! Power loss: images of a disk, taken while a store is being written, each opened as after a power cut.
//!
//! - [`image`]: a file system in a file, mounted by loop; what it has not written to its device is not in a copy.
//! - [`sqlite`], [`postgres`]: the images of each store.

pub mod image;
pub mod postgres;
pub mod sqlite;

use crate::args::Args;

/// Runs `power-loss STORE [--images N] [--seed N] [--bug NAME]`.
pub fn main(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    match args.split_first() {
        Some((store, rest)) if store == "sqlite" => sqlite::power_loss(&Args::new(rest)),
        Some((store, rest)) if store == "postgres" => postgres::power_loss(&Args::new(rest)),
        _ => Err("power-loss sqlite|postgres [--images N] [--seed N] [--bug NAME]".into()),
    }
}
