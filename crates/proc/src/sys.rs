//! System calls that rustix does not offer, each behind a safe signature.
//!
//! Callers are single-threaded, or the call touches nothing that threads share.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use lastword_core::receipt::Exit;
use rustix::process::{Resource, Rlimit};

/// Which side of a fork this is.
pub(crate) enum Fork {
    Child,
    Parent(i32),
}

/// Forks. Only for single-threaded processes.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the keeper has one thread, so the child inherits no lock that another thread holds.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Forks directly into a control group. Moving a running process instead waits for an RCU grace period, about ten milliseconds.
/// Kernels before 5.7 and some sandboxes refuse.
pub(crate) fn fork_into(group: BorrowedFd<'_>) -> io::Result<Fork> {
    /// `CLONE_INTO_CGROUP`; the constant in libc overflows.
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: the arguments are plain numbers, zero meaning unset, and outlive the call. Without a stack or shared memory this is a
    // fork of a single-threaded process.
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

/// Exits at once, without unwinding and without flushing buffers that the parent also holds.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// The result of `waitpid` over all children.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// This child exited and was reaped.
    One(i32, Exit),
    /// There are children, and none has exited.
    NoneYet,
    /// There is no child: the proof that a tree is empty.
    NoChildren,
}

/// Reaps one child of any kind; waits for one if `block`.
pub(crate) fn reap(block: bool) -> Reaped {
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
            0 => return Reaped::NoneYet,
            -1 => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ECHILD) => return Reaped::NoChildren,
                // Any other error proves nothing about children.
                Some(libc::EINTR) => {}
                _ => return Reaped::NoneYet,
            },
            pid => return Reaped::One(pid, exit_of(status)),
        }
    }
}

/// Decodes a wait status.
pub(crate) fn exit_of(status: i32) -> Exit {
    match libc::WIFEXITED(status) {
        true => Exit::Code(libc::WEXITSTATUS(status)),
        false => Exit::Signal(libc::WTERMSIG(status)),
    }
}

/// Returns how a process ended that another process reaped. `None` on kernels before 6.15, and until the process is reaped.
pub(crate) fn exit_from_pidfd(process: &OwnedFd) -> Option<Exit> {
    /// The first version of `struct pidfd_info`, which every later kernel accepts.
    #[repr(C)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    /// `PIDFD_GET_INFO` for a structure of that size.
    const GET_INFO: u32 = 0xC040_FF0B;
    /// `PIDFD_INFO_EXIT`.
    const EXIT: u64 = 1 << 3;
    let mut info = Info { mask: EXIT, cgroup: 0, ids: [0; 11], exit_code: 0 };
    // SAFETY: the kernel writes at most the size that is part of the request, into a structure that outlives the call.
    let told = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO as _, &raw mut info) };
    (told == 0 && info.mask & EXIT != 0).then(|| exit_of(info.exit_code))
}

/// Signals that a keeper handles in its loop.
const HANDLED: [i32; 6] =
    [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1];

/// Signals that the kernel raises for a broken program; they must stay fatal.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS];

/// Blocks the signals that must not kill a keeper and returns a descriptor that reports them instead.
pub(crate) fn signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before it is read, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in HANDLED {
            libc::sigaddset(&raw mut set, signal);
        }
        // Block everything else, too: neither a file size limit nor a foreign timer may kill a keeper.
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

/// Blocks the signals of CPU and file size limits: a write over the limit then fails with an error.
pub(crate) fn block_limit_signals() {
    // SAFETY: the set is initialised by `sigemptyset` before it is read, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGXCPU);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Returns a resource limit of another process of this user.
pub(crate) fn limit_of(pid: i32, resource: Resource) -> io::Result<Rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads nothing and writes a structure that outlives the call.
    let got = unsafe { libc::prlimit(pid, resource as _, std::ptr::null(), &raw mut limit) };
    let value = |value: libc::rlim_t| (value != libc::RLIM_INFINITY).then_some(value);
    match got {
        0 => Ok(Rlimit { current: value(limit.rlim_cur), maximum: value(limit.rlim_max) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Drains a signal descriptor and returns the signals other than SIGCHLD.
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

/// Restores the default disposition of every signal and unblocks all, as a started program expects.
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

/// Has the kernel reap the children of this process, which never waits for them.
pub(crate) fn ignore_children() {
    // SAFETY: a disposition without a handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// Undoes [`ignore_children`], for a fork that does wait for its children.
pub(crate) fn wait_for_children() {
    // SAFETY: a disposition without a handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Closes every descriptor from `first` on, which the parent may have leaked.
pub(crate) fn close_from(first: u32) {
    // SAFETY: called at the very start of a process, before any descriptor from `first` on has an owner.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
    }
}

/// Closes a descriptor in a forked child that should not inherit it.
pub(crate) fn close_in_child(fd: &OwnedFd) {
    // SAFETY: the child never returns to where the owner would be dropped: it execs, or ends with `exit`.
    unsafe {
        libc::close(fd.as_raw_fd());
    }
}

/// Replaces this process. Returns only on failure.
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

/// Makes this process undumpable: no core file, and other processes cannot read its memory and forge its messages.
pub(crate) fn set_undumpable() {
    // SAFETY: `prctl` with these constants takes no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// Undoes [`set_undumpable`] for a child that will run the user's program: where `/proc` is mounted with `hidepid`, its keeper could
/// not see it otherwise.
pub(crate) fn set_dumpable() {
    // SAFETY: `prctl` with these constants takes no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
}

/// Sets the name of this process for `ps`.
pub(crate) fn set_name(name: &std::ffi::CStr) {
    // SAFETY: the kernel reads at most 16 bytes of a string that ends before.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0);
    }
}

/// Returns pid and uid of the process that connected to a socket. The pid is 0 if it is outside our pid namespace; rustix cannot
/// represent that.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(i32, u32)> {
    let ucred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let ucred = socket_option(socket, libc::SO_PEERCRED, ucred)?;
    Ok((ucred.pid, ucred.uid))
}

/// Returns a pidfd of the process that connected to a socket. Kernels before 6.5 do not provide one.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match socket_option(socket, libc::SO_PEERPIDFD, -1)? {
        // SAFETY: the kernel has just opened this descriptor for us, so it has no other owner.
        fd if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// Reads a socket option that is plain data, valid for every bit pattern.
fn socket_option<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into a value that outlives the call and may hold any bits.
    let got = unsafe {
        let place = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut size)
    };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
