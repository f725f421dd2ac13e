//! The simulated world that both simulations share: hosts, places with their keepers, and the witness.
//!
//! - [`host`]: machines with their clocks; they sleep, reboot, and may be gone for good.
//! - [`place`]: where an attempt lives on a host, and how its keeper behaves. This is the truth that no log can argue with.
//! - [`witness`]: sees every fact as it becomes durable, and compares it with the places.
//!
//! A simulation adds its own journal, its own actors, and the faults that strike them.

pub(crate) mod host;
pub(crate) mod place;
pub(crate) mod witness;
