//! The seeded simulation: production core and journal in a world that a seed decides.
//!
//! - `world`: one schedule, its clock and its queue; `plan`: the jobs it is about.
//! - `store` and `disk`: the production ledger over a disk that loses and tears what was not synced.
//! - `owners`: processes that drive the production owner's step; `requests`: people and programs with wishes.
//! - `keeper` and `agent`: hosts, trees and what runs in them, which is the ground truth.
//! - `fault` and `strike`: what goes wrong, and where it did; `check`: the witness that compares.
//! - [`regressions`]: seeds that once failed.

mod agent;
mod check;
mod disk;
mod fault;
mod keeper;
mod owners;
mod plan;
pub mod regressions;
mod requests;
mod store;
mod strike;
mod world;

use crate::schedules::Simulation;

pub use fault::Fault;
pub use world::run;

/// This simulation, for whoever runs many schedules of it.
pub const SIMULATION: Simulation =
    Simulation { flag: "", run, table: fault::TABLE, faults_min: 3, coverage_from: 100_000 };
