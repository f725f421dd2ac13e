//! A fleet: the server, which has the journal and talks to workers, and the worker, which runs jobs. `enrolment.rs`: how a worker is known. `peers.rs`: workers of other servers. `removals.rs`: files of removed jobs.

pub(crate) mod enrolment;
mod peers;
mod removals;
pub(crate) mod server;
pub(crate) mod worker;
