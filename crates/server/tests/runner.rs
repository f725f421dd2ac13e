//! The API over a real socket, on a real journal. One binary, so that it is linked once. What needs processes is tested with the
//! executable, in `crates/cli/tests`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot be set up has failed, or says why it was skipped"
)]

mod document;
mod endpoint;
