//! A seccomp filter that keeps a tree from changing the resource limits of other processes.
//!
//! The kernel lets a process change the limits of every process of its user: with a CPU limit, one job could kill another, or a keeper.
//! A filter cannot look up a pid, so it allows `prlimit(2)` to set a limit only for pid 0, the caller. Reading limits is not restricted.

use std::io;

/// The audit architecture and the number of `prlimit64` in it: for this program, and for 32-bit programs on the same kernel.
const CALLS: [(u32, u32); 2] = if cfg!(target_arch = "x86_64") {
    [(0xC000_003E, 302), (0x4000_0003, 340)]
} else if cfg!(target_arch = "aarch64") {
    [(0xC000_00B7, 261), (0x4000_0028, 369)]
} else {
    [UNKNOWN; 2]
};
const UNKNOWN: (u32, u32) = (0, 0);

/// Offsets in `struct seccomp_data` on a little-endian machine. A pid has 32 bits, a pointer 64.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const PID: u32 = 16;
const NEW_LIMIT: u32 = 32;

/// Removes the bit that marks a call of the x32 ABI.
const X32_MASK: u32 = !0x4000_0000;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Indices of steps in the filter.
const CHECK: u8 = 8;
const ALLOW: u8 = 14;
const REFUSE: u8 = 15;

#[rustfmt::skip] // One row, one step.
const FILTER: [libc::sock_filter; 16] = [
    step(LOAD, ARCHITECTURE),
    branch(1, CALLS[0].0, 2, 5),
    step(LOAD, NUMBER),
    step(AND, X32_MASK),
    branch(4, CALLS[0].1, CHECK, ALLOW),
    branch(5, CALLS[1].0, 6, ALLOW),
    step(LOAD, NUMBER),
    branch(7, CALLS[1].1, CHECK, ALLOW),
    step(LOAD, PID),
    branch(9, 0, ALLOW, 10),
    step(LOAD, NEW_LIMIT),
    branch(11, 0, 12, REFUSE),
    step(LOAD, NEW_LIMIT + 4),
    branch(13, 0, ALLOW, REFUSE),
    step(RETURN, libc::SECCOMP_RET_ALLOW),
    step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
];

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Returns the step `at`: compares with `k`, and continues at one of two later steps.
const fn branch(at: u8, k: u32, equal: u8, other: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: equal - at - 1, jf: other - at - 1, k }
}

/// Keeps this process and everything it will start from changing limits of other processes.
///
/// Called in a child before its exec. Without `no_new_privs`, the kernel allows it only to root.
pub(crate) fn restrict() -> io::Result<()> {
    if CALLS[0] == UNKNOWN {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let program = libc::sock_fprog { len: FILTER.len() as u16, filter: FILTER.as_ptr().cast_mut() };
    // Without this flag, kernels before 5.16 also turn on costly mitigations.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel copies a program of the given length, which outlives the call.
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
