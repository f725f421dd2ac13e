//! How a fresh, empty journal of each kind is opened, with whatever must outlive it as a guard.
//!
//! A backend joins the conformance suite, the differential run and the command line by a constructor here and a
//! line in [`for_each_backend`](crate::for_each_backend).

use std::sync::atomic::{AtomicU64, Ordering};

use lastword_core::Timestamp;
use lastword_link::{Bells, Hosts, Identity, Link, Options, Principal, Remote, Timing, Trust, serve};
use lastword_store::memory::Memory;
use lastword_store::postgres::Postgres;
use lastword_store::sqlite::Sqlite;
use lastword_store::{Said, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::pg::{Shared, options};

/// Hands the names of all backends to a macro. Each is also the name of its constructor in this module.
#[macro_export]
macro_rules! for_each_backend {
    ($callback:ident) => {
        $callback! {
            memory;
            sqlite;
            postgres;
            link;
        }
    };
}

/// Opens a journal in memory. Each is another instance, as two databases would be.
pub async fn memory() -> (Memory, ()) {
    (Memory::new(next_instance()), ())
}

fn next_instance() -> u64 {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    INSTANCES.fetch_add(1, Ordering::Relaxed)
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
    let journal = Postgres::open(&server.database().await, options()).await;
    (journal.expect("an empty database becomes a journal"), server)
}

/// A server of a link, and what must outlive it.
pub struct Served<G> {
    server: JoinHandle<()>,
    _guard: G,
}

impl<G> Drop for Served<G> {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Opens a journal in memory behind a link: one that hosts share, as every link says of its own.
///
/// # Panics
/// If there is no free port.
pub async fn link() -> (Link, Served<()>) {
    linked((Memory::shared(next_instance()), ())).await
}

/// Opens a journal in a database behind a link, as a fleet has it. For the conformance suite alone: what a random run can find in a link
/// it finds without a database, in a third of the time.
///
/// # Panics
/// If PostgreSQL is not installed or does not start.
pub async fn link_postgres() -> (Link, Served<Shared>) {
    linked(postgres().await).await
}

/// Serves a store to a link that may do everything.
async fn linked<S: Store, G>((store, guard): (S, G)) -> (Link, Served<G>) {
    const TOKEN: &str = "let me in";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let identity = Identity::make().expect("a certificate can be made");
    let trust = Trust::Fingerprints(vec![identity.fingerprint()]);
    let timing = Timing::default();
    // The clock is for workers; this principal is a server.
    let clock = || Timestamp(0);
    let options = Options {
        journal: "proof".to_owned(),
        clock,
        connections: 8,
        timing,
        bells: Bells::default(),
        hosts: Hosts::default(),
    };
    let gate = |token: &str| (token == TOKEN).then_some(Principal::Server);
    let server = tokio::spawn(async move {
        let Err(error) = serve(listener, &identity, store, gate, options).await;
        panic!("the server cannot serve: {error}");
    });
    let remote =
        Remote { servers: vec![address], trust, token: TOKEN.to_owned(), said: Said::default(), timing };
    let link = Link::connect(remote).await.expect("the server lets it in");
    (link, Served { server, _guard: guard })
}
