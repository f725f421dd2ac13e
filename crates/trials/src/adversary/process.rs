//! System calls for building trees. Nothing here allocates, so all of it may follow a fork in a program with threads.

use std::ffi::CString;

/// Every process exits after this many seconds, even if nothing stops it: longer than any stop may take, short enough not to be a nuisance
/// after an aborted run. A SIGSTOPped process does not get its alarm; the judge kills it.
const LIFETIME_S: u32 = 15;

/// Processes that fork all the time check the clock instead: children do not inherit alarms.
const FORKING_NS: u64 = 10_000_000_000;

/// Sets the alarm of this process.
pub(crate) fn set_alarm() {
    // SAFETY: takes a number.
    unsafe {
        libc::alarm(LIFETIME_S);
    }
}

/// Forks: 0 in the child, negative on failure.
pub(crate) fn fork() -> i32 {
    // SAFETY: what the child does after it does not allocate and takes no lock.
    unsafe { libc::fork() }
}

/// Forks a child that sets its alarm, runs its work and exits with 0. Returns its pid.
pub(crate) fn child(work: impl FnOnce()) -> i32 {
    let pid = fork();
    if pid == 0 {
        set_alarm();
        work();
        exit(0);
    }
    pid
}

/// Exits at once.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread; the others go on.
pub(crate) fn exit_thread() -> ! {
    // SAFETY: takes a number and does not return. What the thread has on its stack is never used again.
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    exit(96)
}

/// Waits until the main thread of this process has exited.
pub(crate) fn until_main_thread_is_gone() {
    let is_gone = || std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| stat.contains(") Z "));
    while !is_gone() {
        rest_us(100);
    }
}

/// Makes this process the leader of a new session.
pub(crate) fn new_session() {
    // SAFETY: takes nothing.
    unsafe {
        libc::setsid();
    }
}

/// Makes this process the leader of a new group.
pub(crate) fn new_group() {
    // SAFETY: takes numbers.
    unsafe {
        libc::setpgid(0, 0);
    }
}

/// Ignores every signal that asks a process to exit.
pub(crate) fn turn_deaf() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: a disposition without a handler.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Sends this process a signal.
pub(crate) fn raise(signal: i32) {
    // SAFETY: takes a number.
    unsafe {
        libc::raise(signal);
    }
}

/// Sets an attribute with `prctl` that takes a number.
pub(crate) fn attribute(option: i32, value: libc::c_ulong) {
    // SAFETY: the options used here take a number and no pointer.
    unsafe {
        libc::prctl(option, value, 0, 0, 0);
    }
}

/// Enters a namespace, if it may.
pub(crate) fn enter(namespace: &std::fs::File) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: takes numbers.
    unsafe {
        libc::setns(namespace.as_raw_fd(), 0);
    }
}

/// Takes resources away from another process, for good.
pub(crate) fn starve(pid: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    for resource in [libc::RLIMIT_FSIZE, libc::RLIMIT_NOFILE, libc::RLIMIT_NPROC, libc::RLIMIT_CPU] {
        // SAFETY: the kernel reads a structure that outlives the call.
        unsafe {
            libc::prlimit(pid, resource, &raw const none, std::ptr::null_mut());
        }
    }
}

/// Reaps the child `pid`, or any if -1, without waiting. Reports whether there was one to reap.
pub(crate) fn reap(pid: i32) -> bool {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) > 0 }
}

/// Returns the pid of this process.
pub(crate) fn own_pid() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::getpid() }
}

/// Returns the pid of the parent.
pub(crate) fn parent() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::getppid() }
}

/// Sleeps for some microseconds.
pub(crate) fn rest_us(microseconds: u32) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: i64::from(microseconds) * 1_000 };
    // SAFETY: the structure outlives the call.
    unsafe {
        libc::nanosleep(&raw const pause, std::ptr::null_mut());
    }
}

/// Returns the nanoseconds since boot.
pub(crate) fn boot_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call.
    unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
    }
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the time at which processes that fork all the time exit.
pub(crate) fn forking_ends() -> u64 {
    boot_ns() + FORKING_NS
}

/// Executes `program` with an empty environment.
pub(crate) fn replace(program: &str, arguments: &[&str]) -> ! {
    let word = |text: &str| CString::new(text).unwrap_or_default();
    let path = word(program);
    let words: Vec<CString> = [program].iter().chain(arguments).map(|text| word(text)).collect();
    let words: Vec<*const libc::c_char> =
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let environment = [std::ptr::null()];
    // SAFETY: both lists end with a null pointer, and what they point to outlives the call.
    unsafe {
        libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr());
    }
    exit(97)
}
