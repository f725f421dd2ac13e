//! Locking without poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, ignoring poison: no critical section of this crate can panic half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
