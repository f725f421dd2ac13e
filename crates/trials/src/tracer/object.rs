//! What a call works on, so that it is made to fail only as it can: a pipe has no bad sectors, and a file never says
//! "try again".

use super::calls::{Call, name_of};

/// Calls whose first argument is a descriptor that is read or written.
const ON_DESCRIPTORS: &[&str] = &[
    "read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "recvfrom", "recvmsg",
    "sendto", "sendmsg",
];

/// `O_NONBLOCK`, as `/proc/PID/fdinfo/N` writes it.
const NONBLOCK: u32 = 0o4000;

/// What a descriptor stands for.
pub(super) struct Object {
    pub(super) name: String,
    is_nonblocking: bool,
}

/// Returns what a call that has been entered works on.
pub(super) fn of(pid: i32, call: Call) -> Option<Object> {
    if !ON_DESCRIPTORS.contains(&name_of(call.number).as_str()) {
        return None;
    }
    let fd = call.first_argument as i32;
    let name = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.display().to_string();
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    Some(Object { name, is_nonblocking: flags & NONBLOCK != 0 })
}

impl Object {
    /// Reports whether reading or writing it can fail so.
    pub(super) fn can_fail(&self, errno: i32) -> bool {
        let is_file = self.name.starts_with('/');
        let is_on_disk = is_file && !self.name.starts_with("/proc/") && !self.name.starts_with("/sys/");
        match errno {
            libc::EIO => is_file,
            libc::ENOSPC => is_on_disk && !self.name.starts_with("/memfd:"),
            libc::EAGAIN => !is_file && self.is_nonblocking,
            _ => true,
        }
    }
}
