//! A filter that reports when a process of a tree enters a PID namespace.
//!
//! Orphans in a PID namespace are reparented to its init. If the tree made the namespace, that is a process of the tree; otherwise they
//! have left the tree, and no keeper learns when they die. `setns(2)` is not refused, because containers need it. The keeper is told
//! before the call is carried out, and its receipt then claims less.
//!
//! A process with several threads could exchange the descriptor after the keeper has looked at it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::seccomp::{
    ALLOW, ANSWER, argument, branch, branch_at_bits, examining, install_with_listener, load, numbers,
};
use crate::proc_files;
use crate::tree;

const SETNS: [u32; 2] = numbers([308, 346], [268, 375]);

/// The type of the namespace; 0 stands for any.
const TYPE: u32 = argument(1);

#[rustfmt::skip] // One row, one step.
const FILTER: [libc::sock_filter; 16] = examining(SETNS, [
    load(TYPE),
    branch(9, 0, ANSWER, 10),
    branch_at_bits(10, libc::CLONE_NEWPID as u32, ANSWER, ALLOW),
    // Not reached: every filter has as many steps.
    load(TYPE),
    load(TYPE),
    load(TYPE),
], libc::SECCOMP_RET_USER_NOTIF);

/// Returns both ends of the way on which the listener reaches the keeper: the keeper's, and the child's.
pub(crate) fn handover() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Has this process, and everything it will start, ask its keeper before it enters a namespace. Where the kernel offers no listener, or
/// another one listens already, the keeper is told that nothing asks it.
///
/// Fails if the listener cannot be handed over: without it, entering a namespace would fail.
pub(crate) fn restrict(keeper: &OwnedFd) -> io::Result<()> {
    let listener = install_with_listener(&FILTER).ok();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = listener.iter().map(AsFd::as_fd).collect();
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let is_sent = [u8::from(listener.is_some())];
    let word = [io::IoSlice::new(&is_sent)];
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(keeper, &word, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// The keeper's end.
#[derive(Debug)]
pub(crate) struct NamespaceWatch(OwnedFd);

/// What the watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Nothing, or a namespace that the tree made, or none of PIDs.
    Own,
    /// A PID namespace that was made elsewhere, or one that could not be looked at.
    Foreign,
    /// No process is left that could enter one.
    Over,
}

impl NamespaceWatch {
    /// Receives the listener of a child that is ready; `None` if it has none.
    pub(crate) fn receive(handover: &OwnedFd) -> io::Result<Option<NamespaceWatch>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut is_sent = [0];
        let mut into = [io::IoSliceMut::new(&mut is_sent)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(handover, &mut into, &mut ancillary, flags))?;
        let received = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next().map(NamespaceWatch),
            _ => None,
        });
        match (is_sent, received) {
            // No descriptor was left for it.
            ([1], None) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            (_, received) => Ok(received),
        }
    }

    /// Returns the descriptor that becomes readable when a process asks.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Looks at one process that asks, if there is one. `note` is called before a process may enter a foreign namespace.
    pub(crate) fn take(&self, keeper: i32, note: impl FnOnce()) -> Entered {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let polled = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let events = ready[0].revents();
        // Receiving would block if no process asks.
        if polled != Ok(1) || !events.contains(PollFlags::IN) {
            return if events.contains(PollFlags::HUP) { Entered::Over } else { Entered::Own };
        }
        // SAFETY: plain data for which zero is valid; the kernel writes at most its size.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut asked) }
            != 0
        {
            // It was interrupted, and asks again.
            return Entered::Own;
        }
        let is_foreign = is_foreign(asked.pid.cast_signed(), asked.data.args[0] as i32, keeper);
        if is_foreign {
            note();
        }
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let mut answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error: 0, flags };
        // SAFETY: the structure outlives the call. That it fails means that the process is gone.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw mut answer);
        }
        if is_foreign { Entered::Foreign } else { Entered::Own }
    }
}

/// Reports whether a descriptor of a process stands for a PID namespace that the tree below the keeper did not make.
fn is_foreign(pid: i32, fd: i32, keeper: i32) -> bool {
    let Ok(link) = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")) else {
        return true;
    };
    let link = link.to_string_lossy();
    let namespace = match link.split_once(":[") {
        Some(("pid", _)) => Some(link.into_owned()),
        // A namespace of another type.
        Some((kind, _)) if !matches!(kind, "pidfd" | "anon_inode") => return false,
        // A process, whose namespaces are entered.
        _ => target_of(pid, fd).and_then(namespace_of),
    };
    let is_ours = |namespace: &String| {
        namespace_of(keeper).as_ref() == Some(namespace) || is_made_below(keeper, namespace)
    };
    !namespace.as_ref().is_some_and(is_ours)
}

/// Returns the process that a pidfd of another process stands for.
fn target_of(pid: i32, fd: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// Returns the name of the PID namespace of a process.
fn namespace_of(pid: i32) -> Option<String> {
    Some(std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?.to_string_lossy().into_owned())
}

/// Reports whether the init of a namespace descends from a process.
fn is_made_below(keeper: i32, namespace: &str) -> bool {
    tree::walk(keeper).into_iter().any(|pid| is_init(pid) && namespace_of(pid).as_deref() == Some(namespace))
}

/// Reports whether a process is the init of its PID namespace.
fn is_init(pid: i32) -> bool {
    let status = proc_files::read(pid, "status", STATUS_BYTES_MAX).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_some_and(|pids| pids.split_ascii_whitespace().last() == Some("1"))
}

/// The size limit of `/proc/PID/status`.
const STATUS_BYTES_MAX: u64 = 8 << 10;
