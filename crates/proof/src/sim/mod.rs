//! The seeded simulation: production core and journal in a world that a seed decides.
//!
//! - `world`: one schedule, its clock and its queue; `plan`: the jobs it is about.
//! - `store`, `journal` and `disk`: the production ledger over a disk that loses and tears what was not synced.
//! - `owners` and `process`: processes that drive the production owner's step; `requests` and `wish`: people and programs with wishes.
//! - `keeper` and `agent`: effects reach keepers, and what runs in their trees; hosts and places are those of `world`.
//! - `fault` and `strike`: what goes wrong, and where it did; `check` and `witness`: what holds besides the rules of the world's witness.
//! - [`regressions`]: seeds that once failed.

mod agent;
mod check;
mod disk;
mod fault;
mod journal;
mod keeper;
mod owners;
mod plan;
mod process;
pub mod regressions;
mod requests;
mod store;
mod strike;
mod wish;
mod witness;
mod world;

use crate::schedules::Simulation;

pub use fault::Fault;
pub use world::run;

/// This simulation, for callers that run many schedules of it.
pub const SIMULATION: Simulation =
    Simulation { flag: "", run, table: fault::TABLE, faults_min: 3, coverage_from: 100_000 };
