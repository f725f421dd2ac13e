//! A fleet: the server, which has the journal and talks to workers, and the worker, which runs jobs. `enrolment.rs`: how a worker is known.

pub(crate) mod enrolment;
pub(crate) mod server;
pub(crate) mod worker;
