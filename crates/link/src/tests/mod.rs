//! Connections, hostile peers and rights, each over real sockets and TLS.

mod attempts;
mod certificates;
mod connection;
mod enrolment;
mod hostile;
mod proxy;
mod rights;
mod setup;
mod stuck;
mod verbs;
