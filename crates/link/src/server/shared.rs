//! How a server serves, and what its connections share.

use std::sync::Arc;

use lastword_core::Timestamp;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::hosts::Hosts;
use super::seats::Seats;
use crate::{Bells, Timing};

/// How a server serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names the journal, the same at every server of it and over failovers. A client that reconnects refuses another one: it would be told
    /// that its jobs are not its own.
    pub journal: String,
    /// The wall clock. That of a worker is not used.
    pub clock: fn() -> Timestamp,
    /// Connections, at most.
    pub connections: usize,
    /// How long it waits for clients.
    pub timing: Timing,
    /// Rings at the workers that are connected.
    pub bells: Bells,
    /// The workers that are connected enter themselves here.
    pub hosts: Hosts,
}

/// What the connections of a server share.
pub(super) struct Server<S, G> {
    pub(super) store: S,
    pub(super) gate: G,
    pub(super) options: Options,
    pub(super) tls: TlsAcceptor,
    pub(super) strangers: Arc<Semaphore>,
    pub(super) seats: Seats,
}
