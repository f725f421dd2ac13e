//! Programs whose output does not matter.

use std::process::{Command, Stdio};

/// Runs a program, which must succeed.
pub(super) fn quiet(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
