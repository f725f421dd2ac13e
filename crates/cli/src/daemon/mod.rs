//! The daemon: the process that holds the journal, the engine and the socket. Jobs do not depend on it living.

pub(crate) mod install;
mod log;
pub(crate) mod run;
mod socket;
pub(crate) mod start;

/// The log, in the state folder.
pub(crate) const LOG: &str = "daemon.log";
