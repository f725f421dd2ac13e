//! How a fresh, empty journal of each kind is opened, with whatever must outlive it as a guard.

use std::sync::atomic::{AtomicU64, Ordering};

use lastword_store::memory::Memory;

/// Opens a journal in memory. Each is another instance, as two databases would be.
pub async fn memory() -> (Memory, ()) {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    (Memory::new(INSTANCES.fetch_add(1, Ordering::Relaxed)), ())
}
