//! Seccomp filters: the small programs by which the kernel decides about system calls of a tree.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// The audit architectures of this program and of 32-bit programs on the same kernel; zero where they are unknown.
const ARCHITECTURES: [u32; 2] = if cfg!(target_arch = "x86_64") {
    [0xC000_003E, 0x4000_0003]
} else if cfg!(target_arch = "aarch64") {
    [0xC000_00B7, 0x4000_0028]
} else {
    [0, 0]
};

/// Offsets in `struct seccomp_data` on a little-endian machine.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// Returns the offset of the lower half of an argument.
pub(super) const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Removes the bit that marks a call of the x32 ABI.
const X32_MASK: u32 = !0x4000_0000;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The numbers of a system call: on x86_64 and i386, or on aarch64 and arm.
pub(super) const fn numbers(x86: [u32; 2], arm: [u32; 2]) -> [u32; 2] {
    if cfg!(target_arch = "x86_64") { x86 } else { arm }
}

/// The step at which the arguments of the call are examined, and the last two.
pub(super) const EXAMINE: u8 = 8;
pub(super) const ALLOW: u8 = 14;
pub(super) const ANSWER: u8 = 15;

/// Returns a filter that allows everything but one system call, which it examines in the steps from `EXAMINE` to `ALLOW`. Those end at
/// `ALLOW`, or at `ANSWER` with the given action.
pub(super) const fn examining(
    call: [u32; 2],
    steps: [libc::sock_filter; 6],
    action: u32,
) -> [libc::sock_filter; 16] {
    let [first, second, third, fourth, fifth, sixth] = steps;
    [
        load(ARCHITECTURE),
        branch(1, ARCHITECTURES[0], 2, 5),
        load(NUMBER),
        step(AND, X32_MASK),
        branch(4, call[0], EXAMINE, ALLOW),
        branch(5, ARCHITECTURES[1], 6, ALLOW),
        load(NUMBER),
        branch(7, call[1], EXAMINE, ALLOW),
        first,
        second,
        third,
        fourth,
        fifth,
        sixth,
        step(RETURN, libc::SECCOMP_RET_ALLOW),
        step(RETURN, action),
    ]
}

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

pub(super) const fn load(offset: u32) -> libc::sock_filter {
    step(LOAD, offset)
}

/// Returns the step `at`: compares with `k`, and continues at one of two later steps.
pub(super) const fn branch(at: u8, k: u32, equal: u8, other: u8) -> libc::sock_filter {
    jump(libc::BPF_JEQ, at, k, equal, other)
}

/// Returns the step `at`: looks for any bit of `k`, and continues at one of two later steps.
pub(super) const fn branch_at_bits(at: u8, k: u32, some: u8, none: u8) -> libc::sock_filter {
    jump(libc::BPF_JSET, at, k, some, none)
}

const fn jump(test: u32, at: u8, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | test | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: yes - at - 1, jf: no - at - 1, k }
}

/// Installs a filter for this process and everything it will start.
///
/// Called in a child before its exec. Without `no_new_privs`, the kernel allows it only to root.
pub(super) fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    set(filter, 0).map(|_| ())
}

/// The same; returns the descriptor that reports the calls about which the filter asks. There is one per tree of filters.
pub(super) fn install_with_listener(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let fd = set(filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: the kernel has just opened this descriptor for us, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(filter: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    if ARCHITECTURES[0] == 0 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // Without this flag, kernels before 5.16 also turn on costly mitigations.
    let flags = flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel copies a program of the given length, which outlives the call.
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(set as i32) }
}
