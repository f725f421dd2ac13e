//! The client side of the API: typed calls over any connection, repeated when the daemon goes away, and streams of events, rows and transcripts.
//!
//! - [`jobs`], [`changes`], [`conversations`], [`events`], [`output`], [`transcript`], [`groups`], [`workers`], [`daemon`]: every request of the API, as a [`Call`] that knows the type of its reply.
//! - [`Client`] makes calls. It reconnects, waits for a daemon that is starting, and repeats a call whose daemon went away: it is a read,
//!   or carries a key, or does no more the second time. A repeated removal may find nothing, and a repeated interrupt may reach the next turn.
//! - [`Connection`] makes a call once, on one connection, and tells a call that was never sent from one whose reply was lost.
//! - [`Connect`] is how a daemon is reached. [`Unix`] is a socket of this machine; starting a daemon first is up to another implementation.
//!
//! This crate prints nothing and reads neither environment nor settings: what a person should know is passed to a callback as a [`Notice`].

mod call;
pub mod changes;
mod client;
mod connect;
mod connection;
pub mod conversations;
pub mod daemon;
mod error;
pub mod events;
pub mod groups;
pub mod jobs;
pub mod output;
mod patience;
mod reply;
mod rows;
mod stream;
pub mod transcript;
pub mod workers;

pub use call::Call;
pub use client::{Client, Notice};
pub use connect::{Connect, ConnectError, Io, Pending, Unix};
pub use connection::{Connection, Lost};
pub use error::Error;
pub use hyper::Method;
pub use reply::{FromReply, Reply};
pub use rows::{RowChange, Rows};
pub use stream::Events;
pub use transcript::Items;
