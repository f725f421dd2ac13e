//! Names: of this user, this host, and this machine.

use std::path::Path;

use crate::environment;

/// Returns the name that is recorded as the author of this user's requests.
pub(super) fn user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let name = environment::get("USER").or_else(|| environment::get("LOGNAME"));
    name.or_else(|| user_name(uid)).unwrap_or_else(|| format!("user {uid}"))
}

/// Returns the name of a user.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut rows = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let row = rows.find(|row| row.get(2).is_some_and(|number| *number == uid.to_string()))?;
    Some((*row.first()?).to_owned())
}

pub(super) fn host_name() -> String {
    first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "here".to_owned())
}

/// Returns the id of this machine, by which earlier versions named the host.
pub(super) fn machine() -> String {
    first_line("/etc/machine-id").unwrap_or_else(host_name)
}

fn first_line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}
