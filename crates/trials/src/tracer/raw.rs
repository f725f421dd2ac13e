//! The requests of ptrace, each behind a safe signature.

use std::io;

/// Why a tracee stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has ended and is reaped.
    Gone,
    /// It forked this child.
    Forked(i32),
    /// It enters or leaves a system call.
    Call,
    /// This signal is about to reach it.
    Signal(i32),
    /// It was stopped by a stop signal, as a job is.
    Group,
    /// It has just been born or was interrupted by its tracer.
    Event,
}

/// Which side of a call a tracee stands on.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallSide {
    Entry { number: u64, first_argument: u64 },
    Exit { result: i64 },
}

/// Wakes a tracer that waits. Ignored by default, so a tracee that is no longer traced does not notice.
pub(super) const POKE: i32 = libc::SIGURG;

/// A tracer that dies takes what it holds with it instead of leaving it stopped for ever.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
const FORKS: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;

fn request(request: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the requests used here pass plain numbers, except those whose callers pass a live buffer as `data`.
    match unsafe { libc::ptrace(request, pid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

pub(super) fn seize(pid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, pid, 0, (OPTIONS | FORKS) as usize).map(drop)
}

pub(super) fn interrupt(pid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, pid, 0, 0).map(drop)
}

/// From here on another process may kill a tracee at any time: `wait` reports that, so these do not.
pub(super) fn run(pid: i32, signal: i32) {
    let _ = request(libc::PTRACE_CONT, pid, 0, signal as usize);
}

pub(super) fn step(pid: i32, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL, pid, 0, signal as usize);
}

pub(super) fn listen(pid: i32) {
    let _ = request(libc::PTRACE_LISTEN, pid, 0, 0);
}

pub(super) fn detach(pid: i32, signal: i32) {
    let _ = request(libc::PTRACE_DETACH, pid, 0, signal as usize);
}

pub(super) fn follow_no_forks(pid: i32) {
    let _ = request(libc::PTRACE_SETOPTIONS, pid, 0, OPTIONS as usize);
}

pub(super) fn kill(pid: i32) {
    // SAFETY: plain numbers. The pid cannot be recycled: it is our tracee and not yet reaped.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
    }
}

pub(super) fn poke(pid: i32) {
    // SAFETY: plain numbers. Reaping takes the pid off the list before it can be recycled, and the signal is ignored.
    unsafe {
        libc::kill(pid, POKE);
    }
}

/// Waits for a tracee of this thread (-1: any). `None` when there is none.
pub(super) fn wait(pid: i32) -> io::Result<Option<(i32, Stop)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if waited != -1 {
            return Ok(Some((waited, stop_of(waited, status))));
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => {}
            error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            error => return Err(error),
        }
    }
}

fn stop_of(pid: i32, status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            let mut child: libc::c_ulong = 0;
            // A parent killed in this instant has no message; its child is then a stranger, and let go as one.
            let _ = request(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut child) as usize);
            Stop::Forked(child as i32)
        }
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::Group,
        _ => Stop::Event,
    }
}

/// Says which call a tracee that stopped at one is in, and on which side.
pub(super) fn call(pid: i32) -> io::Result<Option<CallSide>> {
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    match request(libc::PTRACE_GET_SYSCALL_INFO, pid, size, (&raw mut info) as usize) {
        // Killed from outside in this instant; the wait will tell.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        other => other.map(drop)?,
    }
    // SAFETY: the kernel said by `op` which member it has filled in.
    Ok(unsafe {
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                Some(CallSide::Entry { number: info.u.entry.nr, first_argument: info.u.entry.args[0] })
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => Some(CallSide::Exit { result: info.u.exit.sval }),
            _ => None,
        }
    })
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use std::mem::offset_of;

    /// Makes the kernel skip the call that is being entered.
    pub(in super::super) fn skip(pid: i32) -> std::io::Result<()> {
        let at = offset_of!(libc::user_regs_struct, orig_rax);
        super::request(libc::PTRACE_POKEUSER, pid, at, usize::MAX).map(drop)
    }

    /// Makes the call that is being left answer with an error.
    pub(in super::super) fn answer(pid: i32, errno: i32) -> std::io::Result<()> {
        let at = offset_of!(libc::user_regs_struct, rax);
        super::request(libc::PTRACE_POKEUSER, pid, at, -(errno as isize) as usize).map(drop)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod registers {
    fn unknown() -> std::io::Result<()> {
        Err(std::io::Error::other(
            "faults are put into registers, and only those of x86_64 are known; run kill-points",
        ))
    }

    pub(in super::super) fn skip(_: i32) -> std::io::Result<()> {
        unknown()
    }

    pub(in super::super) fn answer(_: i32, _: i32) -> std::io::Result<()> {
        unknown()
    }
}

pub(super) use registers::{answer, skip};
