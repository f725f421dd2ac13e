//! The daemon: the process that owns journal, engine and socket. Jobs do not depend on it.

mod host_id;
pub(crate) mod install;
mod limits;
mod log;
pub(crate) mod ping;
pub(crate) mod run;
mod socket;
pub(crate) mod start;

/// The name of the log file in the state folder.
pub(crate) const LOG: &str = "daemon.log";

/// The folder of jobs' folders.
pub(crate) const JOBS: &str = "jobs";
