//! The API on a private unix socket.
//!
//! Each handler calls the engine and converts the result to wire types; nothing about jobs is decided here. This crate decides which peers
//! may call it (`principal.rs`), how long and how large a request may be (`connection.rs`, `body.rs`), and which problem each error
//! becomes (`failure.rs`).
//!
//! - [`Endpoint`]: the socket.
//! - [`serve`]: serves requests on it until told to stop.
//! - [`Fleet`]: the workers of a server.
//! - [`known_agents`], [`own_prices`]: the coding agents known by name, and the user's prices of models.
//! - [`openapi`]: the OpenAPI document.
//!
//! Tests: `tests/`; the API of a daemon with jobs in `crates/cli/tests/api`.

mod agents;
mod app;
mod body;
mod changes;
mod connection;
mod conversations;
mod daemon;
mod document;
mod endpoint;
mod events;
mod extract;
mod failure;
mod fleet;
mod groups;
mod health;
mod jobs;
mod keys;
mod output;
mod principal;
mod processes;
mod progress;
mod router;
mod rows;
mod stream;
mod transcript;
mod usage;
mod workers;

use std::future::Future;

use lastword_engine::Engine;
use lastword_store::Store;

pub use agents::{BadAgents, known_agents, own_prices};
pub use app::{About, Closing};
pub use document::openapi;
pub use endpoint::{BindError, Endpoint};
pub use fleet::{Door, Fleet};

/// Serves requests on `endpoint` until `stop` completes or a client asks the daemon to stop. Then waits end at once, streams are closed
/// (after an announcement, if the daemon stops), requests in flight finish, and the socket is removed. If a client asked, the engine is shut down already.
pub async fn serve<J: Store>(
    endpoint: Endpoint,
    engine: Engine<J>,
    about: About,
    stop: impl Future<Output = Closing>,
) {
    let app = app::App::new(engine, about);
    let router = router::router(&app);
    let watch = async {
        match &app.about().fleet {
            Some(fleet) => fleet.watch().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = connection::accept(&endpoint, &app, &router, stop) => {}
        () = watch => {}
    }
    endpoint.remove();
}
