//! What every request can reach: the engine, what the daemon knows about itself, and whether it is starting or going.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_api::Time;
use lastword_engine::Engine;
use lastword_store::siblings::Siblings;
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::About;

/// Shared by all connections.
pub(crate) struct App<J>(Arc<Shared<J>>);

struct Shared<J> {
    engine: Engine<J>,
    about: About,
    started_at: Time,
    closing: watch::Sender<bool>,
    requests: AtomicU64,
    keyed: Mutex<()>,
}

impl<J> Clone for App<J> {
    fn clone(&self) -> App<J> {
        App(Arc::clone(&self.0))
    }
}

impl<J: Siblings> App<J> {
    pub(crate) fn new(engine: Engine<J>, about: About) -> App<J> {
        App(Arc::new(Shared {
            engine,
            about,
            started_at: Time(lastword_proc::clock::wall_ms()),
            closing: watch::Sender::new(false),
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

    /// Reports whether the engine has found out what became of the jobs of its former life.
    pub(crate) fn is_ready(&self) -> bool {
        self.engine().is_ready()
    }

    /// Tells every wait, every stream and the door to come to an end.
    pub(crate) fn close(&self) {
        self.0.closing.send_replace(true);
    }

    /// Waits until the service comes to an end.
    pub(crate) async fn closing(&self) {
        // The sender lives in what `self` holds, so it cannot be gone.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Waits for its turn among messages that have an idempotency key.
    pub(crate) async fn keyed(&self) -> MutexGuard<'_, ()> {
        self.0.keyed.lock().await
    }

    /// Returns the number of a request, for the log and for problems.
    pub(crate) fn next_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed) + 1
    }
}
