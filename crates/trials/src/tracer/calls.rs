//! The names of system calls, for lists and for the command line.

/// One call that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) first_argument: u64,
    /// `None` as long as it has not returned.
    pub(crate) result: Option<i64>,
}

/// Returns the name of a call, or its number in words.
pub(crate) fn name_of(number: u64) -> String {
    match known().find(|(known, _)| *known as u64 == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("syscall_{number}"),
    }
}

/// Returns the number of a call.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    match name.strip_prefix("syscall_") {
        Some(number) => number.parse().ok(),
        None => known().find(|(_, known)| *known == name).map(|(number, _)| *number as u64),
    }
}

macro_rules! names {
    ($($constant:ident $name:literal),* $(,)?) => { &[$((libc::$constant, $name)),*] };
}

/// Those a keeper makes. One that is not here is shown by its number.
const NAMES: &[(libc::c_long, &str)] = names![
    SYS_accept "accept", SYS_accept4 "accept4", SYS_bind "bind", SYS_brk "brk", SYS_chdir "chdir",
    SYS_clock_gettime "clock_gettime", SYS_clock_nanosleep "clock_nanosleep", SYS_clone "clone", SYS_clone3 "clone3",
    SYS_close "close", SYS_close_range "close_range", SYS_connect "connect", SYS_copy_file_range "copy_file_range",
    SYS_dup "dup", SYS_dup3 "dup3", SYS_epoll_create1 "epoll_create1", SYS_epoll_ctl "epoll_ctl",
    SYS_epoll_pwait "epoll_pwait", SYS_execve "execve", SYS_exit "exit", SYS_exit_group "exit_group",
    SYS_fallocate "fallocate", SYS_fchdir "fchdir", SYS_fchmod "fchmod", SYS_fchmodat "fchmodat", SYS_fcntl "fcntl",
    SYS_fdatasync "fdatasync", SYS_flock "flock", SYS_fstat "fstat", SYS_fsync "fsync", SYS_ftruncate "ftruncate",
    SYS_futex "futex", SYS_getdents64 "getdents64", SYS_geteuid "geteuid", SYS_getpid "getpid", SYS_getppid "getppid",
    SYS_getrandom "getrandom", SYS_gettid "gettid", SYS_getuid "getuid", SYS_ioctl "ioctl", SYS_kill "kill",
    SYS_landlock_create_ruleset "landlock_create_ruleset", SYS_landlock_restrict_self "landlock_restrict_self",
    SYS_linkat "linkat", SYS_listen "listen", SYS_lseek "lseek", SYS_madvise "madvise",
    SYS_memfd_create "memfd_create", SYS_mkdirat "mkdirat", SYS_mmap "mmap", SYS_mount "mount",
    SYS_mprotect "mprotect", SYS_mremap "mremap", SYS_munmap "munmap", SYS_nanosleep "nanosleep",
    SYS_newfstatat "newfstatat", SYS_openat "openat", SYS_openat2 "openat2", SYS_pidfd_open "pidfd_open",
    SYS_pidfd_send_signal "pidfd_send_signal", SYS_pipe2 "pipe2", SYS_ppoll "ppoll", SYS_prctl "prctl",
    SYS_pread64 "pread64", SYS_preadv "preadv", SYS_prlimit64 "prlimit64", SYS_pwrite64 "pwrite64",
    SYS_pwritev "pwritev", SYS_read "read", SYS_readlinkat "readlinkat", SYS_readv "readv", SYS_recvfrom "recvfrom",
    SYS_recvmsg "recvmsg", SYS_renameat2 "renameat2", SYS_rseq "rseq", SYS_rt_sigaction "rt_sigaction",
    SYS_rt_sigprocmask "rt_sigprocmask", SYS_rt_sigreturn "rt_sigreturn", SYS_sched_yield "sched_yield",
    SYS_sendmsg "sendmsg", SYS_sendto "sendto", SYS_set_robust_list "set_robust_list", SYS_setns "setns",
    SYS_setpgid "setpgid", SYS_setsid "setsid", SYS_setsockopt "setsockopt", SYS_shutdown "shutdown",
    SYS_sigaltstack "sigaltstack", SYS_signalfd4 "signalfd4", SYS_socket "socket", SYS_socketpair "socketpair",
    SYS_splice "splice", SYS_statx "statx", SYS_symlinkat "symlinkat", SYS_sync_file_range "sync_file_range",
    SYS_tee "tee", SYS_tgkill "tgkill", SYS_timerfd_create "timerfd_create", SYS_timerfd_settime "timerfd_settime",
    SYS_umask "umask", SYS_unlinkat "unlinkat", SYS_unshare "unshare", SYS_wait4 "wait4", SYS_waitid "waitid",
    SYS_write "write", SYS_writev "writev",
];

/// Those that newer architectures have left out.
#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[(libc::c_long, &str)] = names![
    SYS_access "access", SYS_chmod "chmod", SYS_dup2 "dup2", SYS_epoll_wait "epoll_wait", SYS_fork "fork",
    SYS_getdents "getdents", SYS_link "link", SYS_lstat "lstat", SYS_mkdir "mkdir", SYS_open "open", SYS_pipe "pipe",
    SYS_poll "poll", SYS_readlink "readlink", SYS_rename "rename", SYS_rmdir "rmdir", SYS_stat "stat",
    SYS_unlink "unlink", SYS_vfork "vfork",
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[(libc::c_long, &str)] = &[];

fn known() -> impl Iterator<Item = &'static (libc::c_long, &'static str)> {
    NAMES.iter().chain(OLD_NAMES)
}
