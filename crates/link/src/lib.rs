//! The journal over a connection: a worker's [`Link`] is a store whose server has the database.
//!
//! One TLS connection carries many requests at once; answers come in any order. Renewals overtake everything else, on both sides. Each
//! side beats once a second, so a black hole is found within seconds.
//!
//! - `wire.rs`: verbs, answers and the forms of what they carry; `carried.rs`: how forms are composed.
//! - `frame.rs`, `outbox.rs`: messages in pieces, urgent ones in between.
//! - `tls.rs`: the server's certificate, and how it is known again.
//! - `ask.rs`: what a server asks a worker about attempts; `asking.rs`: how it comes to an answer, whatever way the question takes.
//! - `gate.rs`: which principal a token proves; `policy.rs`: what it may do. `bells.rs`: what a worker should look at.
//! - `client.rs`, `server.rs`: the two sides.
//!
//! Tests: `tests/` for connections, hostile peers and rights; the verbs in `crates/proof`, whose conformance suite and differential run
//! have journals behind a link as backends.

mod ask;
mod asking;
mod bells;
mod carried;
mod client;
mod frame;
mod gate;
mod outbox;
mod policy;
mod server;
#[cfg(test)]
mod tests;
mod timing;
mod tls;
mod wire;

pub use bells::Bells;
pub use client::{Link, NoServer, Peer, Remote, Unwelcome, enrol, prove};
pub use gate::{EnrolledOnly, Gate, Principal};
pub use server::{Hosts, Options, serve};
pub use timing::Timing;
pub use tls::{Fingerprint, Identity, NotAFingerprint, Trust};

/// Requests of a connection that are under way at once, at most. A client waits for a place; a server cuts off one that does not.
const UNDER_WAY_MAX: usize = 64;

/// The same of renewals, which have their own places.
const URGENT_UNDER_WAY_MAX: usize = 8;
