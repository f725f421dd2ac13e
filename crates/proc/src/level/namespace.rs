//! A PID namespace: when its init dies, the kernel kills everything in it.
//!
//! The init is a fork of the shim. It dies with the shim, mounts `/proc` for the namespace, starts the leader, reaps orphans, reports to
//! the shim how the leader ended, and exits when no process is left.

use std::ffi::CStr;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Signal;

use super::self_test::{
    daemonise, in_child, kill_and_reap, kill_children, set_alarm, sleep_until_killed, wait_for,
};
use crate::sys;

/// The init's own namespaces: PIDs, and mounts for a matching `/proc`.
pub(crate) const FLAGS: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS;

/// First byte of the init's first message: the leader was started, or it failed with the error number that follows.
const LEADER: u8 = b'L';
const FAILED: u8 = b'F';

/// A running namespace, from the shim's view.
#[derive(Debug)]
pub(crate) struct Init {
    /// The init's pid outside. It is our child; once it is reaped, the namespace is gone.
    pub(crate) pid: i32,
    /// The leader's pid outside.
    pub(crate) leader: i32,
    status: OwnedFd,
}

impl Init {
    /// Returns the descriptor that becomes readable when the leader or the init has exited.
    pub(crate) fn status_fd(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    /// Waits for the leader to exit and returns its raw wait status. `None` means that the init was killed, and with it the leader if it
    /// had not exited before.
    pub(crate) fn leader_status(&self) -> io::Result<Option<i32>> {
        let mut status = [0; 4];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.status, &mut status))? {
            4 => Ok(Some(i32::from_ne_bytes(status))),
            _ => Ok(None),
        }
    }
}

/// Starts a namespace whose leader calls `run`, and exits with its result if it returns.
///
/// The caller must be single-threaded. It stays the parent: the namespace ends with it.
pub(crate) fn spawn(run: impl FnOnce() -> i32) -> io::Result<Init> {
    spawn_with(FLAGS, run)
}

fn spawn_with(flags: i32, run: impl FnOnce() -> i32) -> io::Result<Init> {
    // With SEQPACKET, the kernel attaches the sender's credentials to each message, with its pid as seen by the reader.
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_passcred(&ours, true)?;
    let as_user =
        CreateUser { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let (pid, user) = match clone(flags) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            (clone(flags | libc::CLONE_NEWUSER)?, Some(as_user))
        }
        cloned => (cloned?, None),
    };
    if pid == 0 {
        drop(ours);
        init(&theirs, user, run)
    }
    drop(theirs);
    match receive_first_message(&ours) {
        Ok(leader) => Ok(Init { pid, leader, status: ours }),
        Err(error) => {
            // A child of ours with nothing in it: leave nothing behind.
            if let Some(init) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(init, Signal::KILL);
            }
            let _ = wait_for(pid);
            Err(error)
        }
    }
}

/// Forks into new namespaces. Returns 0 in the child.
fn clone(flags: i32) -> io::Result<i32> {
    let flags = libc::c_ulong::from((flags | libc::SIGCHLD).cast_unsigned());
    // SAFETY: without a stack or shared memory this is a fork of a single-threaded process.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) } {
        -1 => Err(io::Error::last_os_error()),
        pid => i32::try_from(pid).map_err(io::Error::other),
    }
}

/// Receives the first message; returns the leader's pid.
fn receive_first_message(socket: &OwnedFd) -> io::Result<i32> {
    let mut bytes = [0; 5];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut bytes)];
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let sender = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get()),
        _ => None,
    });
    match (bytes[0], message.bytes, sender) {
        (LEADER, 1, Some(leader)) => Ok(leader),
        (FAILED, 5, _) => {
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes([bytes[1], bytes[2], bytes[3], bytes[4]])))
        }
        _ => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the init of the namespace died while starting"))
        }
    }
}

/// Sends a message to the shim. If it is gone, we are about to be killed as well.
fn send(socket: &OwnedFd, word: &[u8]) {
    let _ = rustix::net::send(socket, word, SendFlags::NOSIGNAL);
}

/// The main function of the init.
fn init(socket: &OwnedFd, user: Option<CreateUser>, run: impl FnOnce() -> i32) -> ! {
    let prepared = prepare(socket, user).and_then(|()| sys::fork());
    let leader = match prepared {
        Ok(sys::Fork::Child) => {
            send(socket, &[LEADER]);
            sys::exit(run())
        }
        Ok(sys::Fork::Parent(leader)) => leader,
        Err(error) => {
            let [a, b, c, d] = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            send(socket, &[FAILED, a, b, c, d]);
            sys::exit(1)
        }
    };
    close_all_but(socket);
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } {
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) => sys::exit(0),
            pid if pid == leader => send(socket, &status.to_ne_bytes()),
            _ => {}
        }
    }
}

/// Prepares the init: it dies with the shim, ignores other signals, and has its own `/proc`.
fn prepare(socket: &OwnedFd, user: Option<CreateUser>) -> io::Result<()> {
    // An init ignores signals without a handler, except KILL from outside.
    sys::default_signals();
    sys::set_name(c"lw-init");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent outside the namespace has no pid in here to compare; its end of the socket shows whether it is alive.
    let mut ask = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ask, Some(&now))? != 0 {
        return Err(rustix::io::Errno::PIPE.into());
    }
    if let Some(user) = user {
        user.map()?;
    }
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None::<&CStr>)?;
    sys::set_undumpable();
    Ok(())
}

/// The user of a namespace created without root: the same as outside, and the only one.
struct CreateUser {
    uid: u32,
    gid: u32,
}

impl CreateUser {
    fn map(&self) -> io::Result<()> {
        // The `/proc` files of an undumpable process belong to root.
        // SAFETY: `prctl` with these constants takes no pointers.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", self.uid))?;
        std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", self.gid))
    }
}

/// Closes what the init does not need: the tree's pipes, and the lock that shows that a keeper is alive.
fn close_all_but(socket: &OwnedFd) {
    let kept = socket.as_raw_fd().cast_unsigned();
    // SAFETY: from here on the init uses only the socket, and never returns to an owner of the others.
    unsafe {
        if let Some(last) = kept.checked_sub(1) {
            libc::syscall(libc::SYS_close_range, 0_u32, last, 0_u32);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0_u32);
    }
}

/// Checks that a tree in a namespace sees only its own processes and dies, daemons included, with the init.
///
/// `flags` is a parameter so that a test can make this fail.
pub(crate) fn self_test(flags: i32) -> Result<(), String> {
    in_child(|| {
        // Processes that a failed test leaves are reparented to us instead of the machine's init.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("prctl(PR_SET_CHILD_SUBREAPER): {error}"))?;
        let (held, holder) = io::pipe().map_err(|error| format!("pipe: {error}"))?;
        let started = spawn_with(flags, test_leader);
        let init = started.map_err(|error| format!("a PID namespace with a /proc of its own: {error}"))?;
        drop(holder);
        let status = init.leader_status();
        // The daemon that the leader started is still in there.
        let ended = kill_and_reap(init.pid).and_then(|()| is_closed(held));
        kill_children();
        match status {
            Ok(Some(status)) if status == TEST_LEADER_EXIT << 8 => ended,
            _ => Err(format!("a leader in a namespace ended with status {status:x?}")),
        }
    })
}

/// The exit code of the self-test's leader if everything is as expected.
const TEST_LEADER_EXIT: i32 = 7;

/// Checks its pid and `/proc`, and leaves a daemon behind.
fn test_leader() -> i32 {
    set_alarm();
    let own = std::process::id().to_string();
    let shown = std::fs::read_link("/proc/self");
    match (own.as_str(), shown, daemonise(|_| sleep_until_killed())) {
        ("2", Ok(shown), Ok(_)) if shown.as_os_str() == "2" => TEST_LEADER_EXIT,
        ("2", ..) => 3,
        _ => 4,
    }
}

/// Checks, without waiting, that no process holds the other end of a pipe.
pub(super) fn is_closed(mut held: io::PipeReader) -> Result<(), String> {
    rustix::io::ioctl_fionbio(&held, true).map_err(|error| format!("pipe: {error}"))?;
    match held.read(&mut [0]) {
        Ok(0) => Ok(()),
        _ => Err("a process of the namespace survived its init".to_owned()),
    }
}
