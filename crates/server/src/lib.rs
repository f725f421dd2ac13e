//! The API on a private unix socket.
//!
//! It asks the engine, waits, and says in wire types what came of it. It decides nothing about jobs. What it does decide:
//! which callers may ask (`caller.rs`), how long and how large a request may be (`connection.rs`, `extract.rs`), and as which problem
//! every kind of no is told (`failure.rs`).
//!
//! - [`Endpoint`]: the socket, made and removed.
//! - [`serve`]: answers on it until told to stop.
//! - [`known_agents`]: the coding agents that can be asked for by name.
//! - [`openapi`]: the document that says all this to programs.

mod agents;
mod app;
mod caller;
mod connection;
mod daemon;
mod document;
mod endpoint;
mod events;
mod extract;
mod failure;
mod groups;
mod jobs;
mod keys;
mod output;
mod router;
mod stream;

use std::future::Future;

use lastword_core::receipt::Level;
use lastword_engine::Engine;
use lastword_store::siblings::Siblings;

pub use agents::{BadAgents, known_agents};
pub use document::openapi;
pub use endpoint::{BindError, Endpoint};

/// What a daemon knows about itself and its API tells.
#[derive(Clone, Debug)]
pub struct About {
    /// The user it works for, as the log calls callers from outside a job.
    pub user: String,
    /// The machine.
    pub host: String,
    /// The folder with everything it keeps.
    pub state_dir: std::path::PathBuf,
    /// How it holds trees.
    pub level: Level,
    /// The file with the user's own agents; it need not be there.
    pub agents: std::path::PathBuf,
}

/// Answers on `endpoint` until `stop` is over or a client asks the daemon to stop, then finishes what was begun: waits are
/// answered at once, streams end. A caller of the API has shut the engine down already; the socket is removed.
pub async fn serve<J: Siblings>(
    endpoint: Endpoint,
    engine: Engine<J>,
    about: About,
    stop: impl Future<Output = ()>,
) {
    let app = app::App::new(engine, about);
    let router = router::router(&app);
    connection::accept(&endpoint, &app, &router, stop).await;
    endpoint.remove();
}
