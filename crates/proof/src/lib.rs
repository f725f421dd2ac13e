//! Proof: what shows that the promises of `docs/contract.md` hold, and fails when one is broken on purpose.
//!
//! - [`conformance`]: what every journal must do, one case at a time, over every backend.
//! - [`differential`]: random operations on two journals, which must answer alike.
//! - [`backends`]: how a fresh journal of each kind is opened.
//! - [`jobs`]: valid facts and appends, quickly made; [`random`]: numbers that a seed repeats.

pub mod backends;
pub mod conformance;
pub mod differential;
pub mod jobs;
pub mod random;
