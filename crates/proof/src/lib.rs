//! Proof: what shows that the promises of `docs/contract.md` hold, and fails when one is broken on purpose.
//!
//! - [`conformance`]: what every journal must do, one case at a time, over every backend.
//! - [`enrolments`]: the same for what the servers of a fleet store of their workers.
//! - [`differential`]: random operations on two journals, which must answer alike.
//! - [`backends`]: how a fresh journal of each kind is opened.
//! - [`jobs`]: valid facts and appends, quickly made; [`random`]: numbers that a seed repeats.
//! - [`model`]: every order of events within bounds, over the production decisions.
//! - [`bugs`]: rules broken on purpose, and which checker noticed; [`late_commit`]: one that only the feed can miss.
//! - [`crash`]: stores killed with -9; [`power_loss`]: disks as a power cut leaves them.
//! - [`sim`]: random schedules of crashes and faults, over the production owner, decisions and journal.
//! - [`engine_sim`]: the same for the whole engine, with simulated keepers.
//! - `world`: what both simulate: hosts, keepers with their trees, and the witness that compares.
//! - [`history`]: a long history of ended jobs, for trials that need one.
//! - [`schedules`]: many of either, on several threads, with figures.
//! - [`args`]: flags of the program's verbs.
//! - [`pg`]: a PostgreSQL to throw away; [`mod@bench`]: our journals beside the bare engines.

pub mod args;
pub mod backends;
pub mod bench;
pub mod bugs;
pub mod conformance;
pub mod crash;
pub mod differential;
pub mod engine_sim;
pub mod enrolments;
pub mod history;
pub mod jobs;
pub mod late_commit;
pub mod lost;
pub mod model;
pub mod pg;
pub mod power_loss;
pub mod random;
pub mod scale;
pub mod schedules;
pub mod sim;
mod world;
