//! System calls that rustix does not offer, each behind a safe signature.
//!
//! Everything here is called from single-threaded processes, or touches nothing that threads share.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use lastword_core::receipt::Exit;

/// Which side of a fork this is.
pub(crate) enum Fork {
    Child,
    Parent(i32),
}

/// Forks. Only for single-threaded processes: the child goes on with a copy of everything.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the keeper has one thread, so the child inherits no lock that another thread holds.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Forks into a control group, so that the child is never outside of it. Moving a process that runs waits for every processor
/// to pass through the scheduler, which takes ten milliseconds; this does not. Kernels before 5.7 and some sandboxes refuse.
pub(crate) fn fork_into(group: BorrowedFd<'_>) -> io::Result<Fork> {
    /// `CLONE_INTO_CGROUP`; that of the library overflows.
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: the arguments are plain numbers, zero being none, and outlive the call. Without a stack and without shared memory
    // this is a fork, and of a process with one thread.
    let pid = unsafe {
        let mut arguments: libc::clone_args = std::mem::zeroed();
        arguments.flags = INTO_CGROUP;
        arguments.exit_signal = libc::SIGCHLD as u64;
        arguments.cgroup = group.as_raw_fd() as u64;
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as i32)),
    }
}

/// Ends this process at once, without unwinding or flushing what a parent may flush again.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// What `waitpid` over all children said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// This child is gone.
    One(i32, Exit),
    /// There are children, and none of them is gone.
    NoneYet,
    /// There is no child at all: the proof that a tree is empty.
    NoChildren,
}

/// Reaps one child of any kind, waiting for it if `block`.
pub(crate) fn reap(block: bool) -> Reaped {
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
            0 => return Reaped::NoneYet,
            -1 => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ECHILD) => return Reaped::NoChildren,
                // Interrupted, or refused for a reason that says nothing about children: never a proof.
                Some(libc::EINTR) => {}
                _ => return Reaped::NoneYet,
            },
            pid => return Reaped::One(pid, exit_of(status)),
        }
    }
}

/// Reads a wait status.
pub(crate) fn exit_of(status: i32) -> Exit {
    match libc::WIFEXITED(status) {
        true => Exit::Code(libc::WEXITSTATUS(status)),
        false => Exit::Signal(libc::WTERMSIG(status)),
    }
}

/// Asks the kernel how a process ended that somebody else has reaped. `None` where it does not tell: before Linux 6.15,
/// and as long as the process is not reaped.
pub(crate) fn exit_told(process: &OwnedFd) -> Option<Exit> {
    /// `struct pidfd_info` in its first version, which every later kernel takes.
    #[repr(C)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    /// `PIDFD_GET_INFO`, for a structure of that size.
    const GET_INFO: u32 = 0xC040_FF0B;
    /// `PIDFD_INFO_EXIT`.
    const EXIT: u64 = 1 << 3;
    let mut info = Info { mask: EXIT, cgroup: 0, ids: [0; 11], exit_code: 0 };
    // SAFETY: the kernel writes at most the size that is part of the request, into a structure that outlives the call.
    let told = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO as _, &raw mut info) };
    (told == 0 && info.mask & EXIT != 0).then(|| exit_of(info.exit_code))
}

/// Signals that a keeper handles in its loop instead of dying of them.
const HANDLED: [i32; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Signals by which the kernel says that a program is broken: it must not go on.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS];

/// Blocks what a keeper must not die of and returns a descriptor that becomes readable instead.
pub(crate) fn signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before it is read, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in HANDLED {
            libc::sigaddset(&raw mut set, signal);
        }
        // Whatever else can be kept away is: a limit on file sizes must not end a keeper, nor a timer somebody else set.
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for fault in FAULTS {
            libc::sigdelset(&raw mut all, fault);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Empties a signal descriptor and returns the signals other than SIGCHLD that had come.
pub(crate) fn take_signals(fd: BorrowedFd<'_>) -> Vec<i32> {
    let mut others = Vec::new();
    loop {
        // SAFETY: a `signalfd_siginfo` is plain data; the kernel writes at most its size.
        let (read, info) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            (libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size), info)
        };
        if read <= 0 {
            return others;
        }
        if info.ssi_signo != libc::SIGCHLD as u32 {
            others.push(info.ssi_signo as i32);
        }
    }
}

/// Gives every signal its default meaning and unblocks all, as a program that is started expects.
pub(crate) fn default_signals() {
    // SAFETY: setting default dispositions and an empty mask has no preconditions; signals that cannot be set are
    // refused without effect.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Lets the kernel reap the children of this process, which never waits for them.
pub(crate) fn ignore_children() {
    // SAFETY: a disposition without a handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// Undoes [`ignore_children`]: whoever waits for children must.
pub(crate) fn wait_for_children() {
    // SAFETY: a disposition without a handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Closes every descriptor from `first` on: what a parent leaked is not ours to hold open.
pub(crate) fn close_from(first: u32) {
    // SAFETY: called at the very start of a process, before any descriptor from `first` on has an owner.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
    }
}

/// Closes a descriptor that a forked child has only because its parent has it.
pub(crate) fn close_in_child(fd: &OwnedFd) {
    // SAFETY: the child never returns to where the owner would be dropped: it execs, or ends with `exit`.
    unsafe {
        libc::close(fd.as_raw_fd());
    }
}

/// Replaces this process. Returns only with the reason why not.
pub(crate) fn execve(path: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| -> Vec<*const libc::c_char> {
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer, and the strings they point to outlive the call.
    unsafe {
        libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

/// Whoever may read this process's memory may forge what it says. Also keeps it from leaving a core file.
pub(crate) fn set_undumpable() {
    // SAFETY: `prctl` with these constants takes no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// Undoes [`set_undumpable`], for a child that will be somebody else's program: its keeper must see it in `/proc`, which hides
/// what cannot be read where it is mounted with `hidepid`.
pub(crate) fn set_dumpable() {
    // SAFETY: `prctl` with these constants takes no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
}

/// Names this process for `ps`.
pub(crate) fn set_name(name: &std::ffi::CStr) {
    // SAFETY: the kernel reads at most 16 bytes of a string that ends before.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0);
    }
}

/// Returns number and user of the process that connected to a socket. The number is zero if it cannot be seen from here, which
/// is why this is not left to rustix: its numbers are never zero.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(i32, u32)> {
    let ucred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let ucred = socket_option(socket, libc::SO_PEERCRED, ucred)?;
    Ok((ucred.pid, ucred.uid))
}

/// Returns the process that connected to a socket, as the kernel kept it. Kernels before 6.5 do not.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match socket_option(socket, libc::SO_PEERPIDFD, -1)? {
        // SAFETY: the kernel has just opened this descriptor for the caller, and nobody else has it yet.
        fd if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// Reads an option that is plain data: numbers only, for which every pattern of bits is a value.
fn socket_option<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into a value that outlives the call and may hold any bits.
    let got = unsafe {
        let place = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut size)
    };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
