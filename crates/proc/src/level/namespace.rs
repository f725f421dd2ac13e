//! A PID namespace: when its init is gone, the kernel has ended everything in it.
//!
//! The init is a fork of the shim. It dies with the shim, mounts the `/proc` of the namespace, starts the leader, reaps
//! whatever comes to it, tells the shim how the leader ended, and goes when nobody is left.

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

use crate::sys;

/// What the init gets of its own: processes, and mounts for the `/proc` that shows them.
pub(crate) const FLAGS: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWNS;

/// First byte of what the shim hears: the leader is there, or there will be none, because of this error number.
const LEADER: u8 = b'L';
const FAILED: u8 = b'F';

/// A namespace that runs, as its shim sees it.
#[derive(Debug)]
pub(crate) struct Init {
    /// The number of the init, outside. It is a child of whoever called [`spawn`]; when it is reaped, the namespace is gone.
    pub(crate) pid: i32,
    /// The number of the leader, outside.
    pub(crate) leader: i32,
    status: OwnedFd,
}

impl Init {
    /// Returns what becomes readable when the leader has ended, or the init has.
    pub(crate) fn status_fd(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    /// Waits for the leader's end and returns its raw wait status. `None` means that the init went without a word: it
    /// was killed, and the leader with it if that had not ended before.
    pub(crate) fn leader_status(&self) -> io::Result<Option<i32>> {
        let mut status = [0; 4];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.status, &mut status))? {
            4 => Ok(Some(i32::from_ne_bytes(status))),
            _ => Ok(None),
        }
    }
}

/// Starts a namespace with a leader that runs `run`, and exits with what that returns if it does not exec.
///
/// The caller is single-threaded, and goes on being the parent: the namespace ends with it.
pub(crate) fn spawn(run: impl FnOnce() -> i32) -> io::Result<Init> {
    spawn_with(FLAGS, run)
}

fn spawn_with(flags: i32, run: impl FnOnce() -> i32) -> io::Result<Init> {
    // One message is one record: the kernel adds to each who sent it, by the number that the reader knows it by.
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
    match first_word(&ours) {
        Ok(leader) => Ok(Init { pid, leader, status: ours }),
        Err(error) => {
            // It is a child of ours that has nobody in it; nothing of it is left behind.
            if let Some(init) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(init, Signal::KILL);
            }
            let _ = super::wait_for(pid);
            Err(error)
        }
    }
}

/// Forks with namespaces. 0 is the child's answer.
fn clone(flags: i32) -> io::Result<i32> {
    let flags = libc::c_ulong::from((flags | libc::SIGCHLD).cast_unsigned());
    // SAFETY: without a stack or shared memory this is a fork, in a process that has one thread.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) } {
        -1 => Err(io::Error::last_os_error()),
        pid => i32::try_from(pid).map_err(io::Error::other),
    }
}

/// Hears whether there is a leader, and who it is.
fn first_word(socket: &OwnedFd) -> io::Result<i32> {
    let mut word = [0; 5];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut word)];
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let sender = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get()),
        _ => None,
    });
    match (word[0], message.bytes, sender) {
        (LEADER, 1, Some(leader)) => Ok(leader),
        (FAILED, 5, _) => {
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes([word[1], word[2], word[3], word[4]])))
        }
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the init of the namespace died at its start")),
    }
}

/// Says something to the shim. It is not there any more only if we are about to die as well.
fn say(socket: &OwnedFd, word: &[u8]) {
    let _ = rustix::net::send(socket, word, SendFlags::NOSIGNAL);
}

/// What the init does.
fn init(socket: &OwnedFd, user: Option<CreateUser>, run: impl FnOnce() -> i32) -> ! {
    let prepared = prepare(socket, user).and_then(|()| sys::fork());
    let leader = match prepared {
        Ok(sys::Fork::Child) => {
            say(socket, &[LEADER]);
            sys::exit(run())
        }
        Ok(sys::Fork::Parent(leader)) => leader,
        Err(error) => {
            let [a, b, c, d] = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            say(socket, &[FAILED, a, b, c, d]);
            sys::exit(1)
        }
    };
    close_all_but(socket);
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } {
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) => sys::exit(0),
            pid if pid == leader => say(socket, &status.to_ne_bytes()),
            _ => {}
        }
    }
}

/// Makes the init one: it dies with the shim, of nothing else, and sees its own processes.
fn prepare(socket: &OwnedFd, user: Option<CreateUser>) -> io::Result<()> {
    // As an init it does not die of signals that have no handler, whoever sends them, but for KILL from outside.
    sys::default_signals();
    sys::set_name(c"lw-init");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // From in here a parent outside has no number that could be compared; its end of the socket tells whether it lives.
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

/// The user of a namespace made without root: the same as outside, and the only one.
struct CreateUser {
    uid: u32,
    gid: u32,
}

impl CreateUser {
    fn map(&self) -> io::Result<()> {
        // The files of a process that must not be dumped belong to root.
        // SAFETY: `prctl` with these constants takes no pointers.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", self.uid))?;
        std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", self.gid))
    }
}

/// Closes what the init has no business with: the tree's pipes, and the lock that says that a keeper lives.
fn close_all_but(socket: &OwnedFd) {
    let kept = socket.as_raw_fd().cast_unsigned();
    // SAFETY: the init uses nothing but the socket from here on, and never returns to an owner of the others.
    unsafe {
        if let Some(last) = kept.checked_sub(1) {
            libc::syscall(libc::SYS_close_range, 0_u32, last, 0_u32);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0_u32);
    }
}

/// Shows that what is started in a namespace has it for its own, and is gone, daemons included, when its init is.
///
/// `flags` is a parameter so that a test can see this fail.
pub(crate) fn self_test(flags: i32) -> Result<(), String> {
    super::in_child(|| {
        // So that what a failed test leaves comes to us, and not to the machine.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("prctl(PR_SET_CHILD_SUBREAPER): {error}"))?;
        let (held, holder) = io::pipe().map_err(|error| format!("pipe: {error}"))?;
        let started = spawn_with(flags, leader_of_test);
        let init = started.map_err(|error| format!("a PID namespace with a /proc of its own: {error}"))?;
        drop(holder);
        let status = init.leader_status();
        // The daemon that the leader left is still in there.
        let ended = super::kill_and_reap(init.pid).and_then(|()| is_closed(held));
        super::kill_children();
        match status {
            Ok(Some(status)) if status == LEADER_OF_TEST << 8 => ended,
            _ => Err(format!("a leader in a namespace ended with status {status:x?}")),
        }
    })
}

/// What the leader of the self-test exits with when all was as it should be.
const LEADER_OF_TEST: i32 = 7;

/// Looks around in the namespace, and leaves a daemon behind.
fn leader_of_test() -> i32 {
    super::end_in_time();
    let own = std::process::id().to_string();
    let shown = std::fs::read_link("/proc/self");
    match (own.as_str(), shown, super::daemonise(|_| super::wait_for_the_end())) {
        ("2", Ok(shown), Ok(_)) if shown.as_os_str() == "2" => LEADER_OF_TEST,
        ("2", ..) => 3,
        _ => 4,
    }
}

/// Tells whether nobody holds the other end, without waiting for it.
pub(super) fn is_closed(mut held: io::PipeReader) -> Result<(), String> {
    rustix::io::ioctl_fionbio(&held, true).map_err(|error| format!("pipe: {error}"))?;
    match held.read(&mut [0]) {
        Ok(0) => Ok(()),
        _ => Err("a process of a namespace was left when its init was gone".to_owned()),
    }
}
