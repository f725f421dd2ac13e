//! How a leader is started.

use std::ffi::OsString;

/// Returns the command line of a leader.
pub(crate) fn argv(words: &[&str]) -> Result<Vec<OsString>, String> {
    let own = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let words = ["leader"].into_iter().chain(words.iter().copied()).map(OsString::from);
    Ok([own.into_os_string()].into_iter().chain(words).collect())
}
