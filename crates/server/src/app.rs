//! State shared by all requests: the engine, facts about the daemon, and whether it is closing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_api::{JobsFate, Stopping, Time};
use lastword_core::receipt::Level;
use lastword_engine::Engine;
use lastword_store::Store;
use tokio::sync::{Mutex, MutexGuard, watch};

/// Facts about the daemon that its API reports.
#[derive(Clone, Debug)]
pub struct About {
    /// The name of its user. It is recorded as the author of requests from outside jobs.
    pub user: String,
    /// Its host.
    pub host: String,
    /// Its state directory.
    pub state_dir: PathBuf,
    /// How it contains process trees.
    pub level: Level,
    /// The file with the user's own agents. It need not exist.
    pub agents: PathBuf,
    /// The file with the user's own prices. It need not exist.
    pub prices: PathBuf,
    /// Whether jobs run on other hosts.
    pub is_fleet: bool,
}

/// Why a server closes its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The daemon stops, and this happens to its jobs. Clients are told.
    Stop(JobsFate),
    /// The daemon serves on at a new socket.
    Rebind,
}

/// State shared by all connections.
pub(crate) struct App<J>(Arc<Shared<J>>);

struct Shared<J> {
    engine: Engine<J>,
    about: About,
    started_at: Time,
    closing: watch::Sender<Option<Closing>>,
    requests: AtomicU64,
    keyed: Mutex<()>,
}

impl<J> Clone for App<J> {
    fn clone(&self) -> App<J> {
        App(Arc::clone(&self.0))
    }
}

impl<J: Store> App<J> {
    pub(crate) fn new(engine: Engine<J>, about: About) -> App<J> {
        App(Arc::new(Shared {
            engine,
            about,
            started_at: Time(lastword_proc::clock::wall_ms()),
            closing: watch::Sender::new(None),
            requests: AtomicU64::new(0),
            keyed: Mutex::const_new(()),
        }))
    }

    pub(crate) fn engine(&self) -> &Engine<J> {
        &self.0.engine
    }

    pub(crate) fn about(&self) -> &About {
        &self.0.about
    }

    pub(crate) fn started_at(&self) -> Time {
        self.0.started_at
    }

    /// Reports whether the engine has recovered the jobs from before its start.
    pub(crate) fn is_ready(&self) -> bool {
        self.engine().is_ready()
    }

    /// Ends every wait and stream, and stops accepting connections. The first reason counts.
    pub(crate) fn close(&self, why: Closing) {
        self.0.closing.send_if_modified(|closing| {
            let is_first = closing.is_none();
            closing.get_or_insert(why);
            is_first
        });
    }

    /// Returns what clients are told if the daemon stops.
    pub(crate) fn stopping(&self) -> Option<Stopping> {
        match &*self.0.closing.borrow() {
            Some(Closing::Stop(jobs)) => Some(Stopping { pid: std::process::id(), jobs: jobs.clone() }),
            Some(Closing::Rebind) | None => None,
        }
    }

    /// Waits until [`App::close`] is called.
    pub(crate) async fn closing(&self) {
        // `self` owns the sender, so it cannot be dropped meanwhile.
        let _ = self.0.closing.subscribe().wait_for(Option::is_some).await;
    }

    /// Locks out other messages with an idempotency key.
    pub(crate) async fn keyed(&self) -> MutexGuard<'_, ()> {
        self.0.keyed.lock().await
    }

    /// Returns the number of the next request, for the log and for problems.
    pub(crate) fn next_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed) + 1
    }
}
