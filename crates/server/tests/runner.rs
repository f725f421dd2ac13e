//! Tests of the API that need no processes. One binary, so that it is linked once. Tests with processes use the executable, in
//! `crates/cli/tests`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot be set up has failed, or says why it was skipped"
)]

mod document;
mod endpoint;
