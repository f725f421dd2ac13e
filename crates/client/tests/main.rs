//! The client against the OpenAPI document, and against scripted daemons that misbehave.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod daemons;
mod routes;
mod transcripts;
