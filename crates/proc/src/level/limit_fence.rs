//! A filter that keeps a tree from changing the resource limits of other processes.
//!
//! The kernel lets a process change the limits of every process of its user: with a CPU limit, one job could kill another, or a keeper.
//! A filter cannot look up a pid, so it allows `prlimit(2)` to set a limit only for pid 0, the caller. Reading limits is not restricted.

use std::io;

use super::seccomp::{ALLOW, ANSWER, argument, branch, examining, install, load, numbers};

const PRLIMIT: [u32; 2] = numbers([302, 340], [261, 369]);

/// The arguments. A pid has 32 bits, a pointer 64.
const PID: u32 = argument(0);
const NEW_LIMIT: u32 = argument(2);

#[rustfmt::skip] // One row, one step.
const FILTER: [libc::sock_filter; 16] = examining(PRLIMIT, [
    load(PID),
    branch(9, 0, ALLOW, 10),
    load(NEW_LIMIT),
    branch(11, 0, 12, ANSWER),
    load(NEW_LIMIT + 4),
    branch(13, 0, ALLOW, ANSWER),
], libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);

/// Keeps this process and everything it will start from changing limits of other processes.
pub(crate) fn restrict() -> io::Result<()> {
    install(&FILTER)
}
