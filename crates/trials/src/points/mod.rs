//! One launch after the other, each struck at another system call of its keeper, then recovered by the next daemon.
//!
//! * `kill-points`: kill -9 of guard, shim or nursery at a call; `fault-points`: the call fails.
//! * What a job does is in `leader`, one attempt from launch to last word in `harness`, what must hold in `judge`.

mod bug;
mod case;
mod crew;
pub(crate) mod fault;
mod harness;
mod judge;
pub(crate) mod kill;
pub(crate) mod leader;
mod table;

/// Attempts side by side: one for each of two cores.
const WORKERS: usize = 2;
