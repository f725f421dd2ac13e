//! The keeper, engine and API with real processes, through the real executable. One binary, so that it is linked once.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod api;
mod common;
mod engine;
mod executable;
mod hostile;
mod lease;
mod life;
mod limits_and_namespaces;
mod output;
mod recovery;
mod skew;
mod stopping;
mod trouble;
