//! Command lines of processes.

use crate::proc_files;

/// Bytes of a command line to show.
const COMMAND_BYTES_MAX: usize = 300;

/// Returns the arguments of a process, without the empty ones that `setproctitle` leaves.
pub(super) fn argv_of(pid: i32) -> Option<Vec<String>> {
    let bytes = proc_files::read(pid, "cmdline", u64::MAX).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Formats a command line for display: truncated, without control characters.
pub(super) fn display(argv: &[String]) -> String {
    let mut line: String =
        argv.join(" ").chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    line.truncate(line.floor_char_boundary(COMMAND_BYTES_MAX));
    line
}
