//! How a fresh, empty journal of each kind is opened, with whatever must outlive it as a guard.
//!
//! A backend joins the conformance suite, the differential run and the command line by a constructor here and a
//! line in [`for_each_backend`](crate::for_each_backend).

use std::sync::atomic::{AtomicU64, Ordering};

use lastword_store::memory::Memory;

/// Hands the names of all backends to a macro. Each is also the name of its constructor in this module.
#[macro_export]
macro_rules! for_each_backend {
    ($callback:ident) => {
        $callback! {
            memory;
        }
    };
}

/// Opens a journal in memory. Each is another instance, as two databases would be.
pub async fn memory() -> (Memory, ()) {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    (Memory::new(INSTANCES.fetch_add(1, Ordering::Relaxed)), ())
}
