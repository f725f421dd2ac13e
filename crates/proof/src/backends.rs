//! How a fresh, empty journal of each kind is opened, with whatever must outlive it as a guard.
//!
//! A backend joins the conformance suite, the differential run and the command line by a constructor here and a
//! line in [`for_each_backend`](crate::for_each_backend).

use std::sync::atomic::{AtomicU64, Ordering};

use lastword_store::memory::Memory;
use lastword_store::postgres::{Clock, Options, Postgres};
use lastword_store::sqlite::Sqlite;
use tempfile::TempDir;

use crate::pg::Shared;

/// Hands the names of all backends to a macro. Each is also the name of its constructor in this module.
#[macro_export]
macro_rules! for_each_backend {
    ($callback:ident) => {
        $callback! {
            memory;
            sqlite;
            postgres;
        }
    };
}

/// Opens a journal in memory. Each is another instance, as two databases would be.
pub async fn memory() -> (Memory, ()) {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    (Memory::new(INSTANCES.fetch_add(1, Ordering::Relaxed)), ())
}

/// Opens a journal in a file of its own, in a folder that is removed with the guard.
///
/// # Panics
/// If there is no room for one.
pub async fn sqlite() -> (Sqlite, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = Sqlite::open(&folder.path().join("journal")).expect("a new journal opens");
    (journal, folder)
}

/// Opens a journal in a database of its own on the server that all tests share.
///
/// # Panics
/// If PostgreSQL is not installed or does not start.
pub async fn postgres() -> (Postgres, Shared) {
    let server = Shared::join().expect("PostgreSQL starts");
    let journal = Postgres::open(&server.database().await, postgres_options()).await;
    (journal.expect("an empty database becomes a journal"), server)
}

/// Returns the options of a journal in PostgreSQL whose callers invent their times.
pub fn postgres_options() -> Options {
    Options { clock: Clock::Caller, ..Options::default() }
}
