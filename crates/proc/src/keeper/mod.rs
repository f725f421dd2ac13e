//! What runs in the keeper's own processes: nursery, guard and shim. One thread each, always.

use std::process::ExitCode;

/// Runs as a nursery, on the socket that is this process's standard input.
pub fn run() -> ExitCode {
    ExitCode::from(125)
}
