//! The daemon: the process that owns journal, engine and socket. Jobs do not depend on it. A server and a worker of a fleet are run in the
//! same way (`run.rs`), with another journal (`service.rs`).

mod host_id;
pub(crate) mod install;
pub(crate) mod laptop;
mod limits;
mod log;
pub(crate) mod names;
pub(crate) mod ping;
pub(crate) mod role;
pub(crate) mod run;
pub(crate) mod service;
mod socket;
pub(crate) mod start;
mod starter;

/// The name of the log file in the state folder.
pub(crate) const LOG: &str = "daemon.log";

/// The folder of jobs' folders.
pub(crate) const JOBS: &str = "jobs";
