//! `attack --fleet`: attacks on a server and its workers, with the executable that ships and a real PostgreSQL.
//!
//! - [`parties`]: the server, the workers, and what an attacker has of them.
//! - [`thief`]: a stolen token.
//! - [`tenant`]: a job against the worker that runs it.
//! - [`impostor`]: another host under one enrolment, and another server at the address.
//! - [`network`]: frames that are slow, huge or many. [`raw`]: a connection that speaks them.

mod impostor;
mod network;
mod parties;
mod raw;
mod tenant;
mod thief;

use super::attempt::Groups;
pub(super) use parties::{Fleet, Grounds};

/// The attempts, by group.
#[rustfmt::skip] // One row, one group.
pub(super) const GROUPS: &Groups<Fleet> = &[
    ("a stolen token", thief::ATTEMPTS),
    ("a job against its worker", tenant::ATTEMPTS),
    ("impostors", impostor::ATTEMPTS),
    ("network", network::ATTEMPTS),
];
