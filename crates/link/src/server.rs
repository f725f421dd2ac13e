//! The server's side: lets clients in, and answers them from a store.
//!
//! A stranger gets the handshake and five seconds for it. After that a connection is bounded by the requests that it may have under way
//! and by the time it takes to read an answer; a client that breaks either is cut off, so that it cannot hold up others.

mod answer;
mod connection;
mod hosts;
mod seats;
mod shared;
mod worker;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lastword_store::Store;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Identity;
use crate::gate::Gate;

pub use hosts::Hosts;
#[cfg(test)]
pub(crate) use seats::SEATS_MAX;
use seats::Seats;
pub use shared::Options;
use shared::Server;

/// Connections whose principal is not known yet, at most.
const STRANGERS_MAX: usize = 256;

/// After an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a store to every client that comes to the listener, until it is dropped.
pub async fn serve<S: Store, G: Gate>(
    listener: TcpListener,
    identity: &Identity,
    store: S,
    gate: G,
    options: Options,
) -> io::Result<Infallible> {
    let tls = TlsAcceptor::from(Arc::new(identity.config().map_err(io::Error::other)?));
    let room = Arc::new(Semaphore::new(options.connections));
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    let seats = Seats::default();
    let server = Arc::new(Server { store, gate, options, tls, strangers, seats });
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                // A connection too many is closed at once, and its client tries another server.
                if let Ok(place) = Arc::clone(&room).try_acquire_owned() {
                    let server = Arc::clone(&server);
                    connections.spawn(async move {
                        connection::run(&server, stream).await;
                        drop(place);
                    });
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
