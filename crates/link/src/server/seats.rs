//! How many connections a worker has. It needs one, and another while a lost one is not noticed; a stolen token must not take the places and
//! the memory that other workers need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::OwnerId;

/// Connections of one worker, at most.
pub(crate) const SEATS_MAX: usize = 4;

/// The connections of each worker.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Mutex<HashMap<OwnerId, usize>>>);

/// One connection of a worker, counted until it is dropped.
pub(super) struct Seat {
    seats: Seats,
    owner: OwnerId,
}

impl Seats {
    /// Counts a connection; `None` if the worker has too many.
    pub(super) fn take(&self, owner: &OwnerId) -> Option<Seat> {
        let mut taken = self.taken();
        let count = taken.entry(owner.clone()).or_default();
        if *count == SEATS_MAX {
            return None;
        }
        *count += 1;
        Some(Seat { seats: self.clone(), owner: owner.clone() })
    }

    /// Locks, ignoring poison: no critical section here can panic half-way.
    fn taken(&self) -> MutexGuard<'_, HashMap<OwnerId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(count) = taken.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}
