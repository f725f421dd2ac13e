//! The nursery: a small process that forks a guard for each launch, until its daemon is gone.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::levels::Levels;
use super::{guard, reply, spawn};
use crate::claim::VERSION;
use crate::identity::boot_id;
use crate::limits;
use crate::line_format::Line;
use crate::sys::{self, Fork};

/// Runs as a nursery on the socket that is this process's stdin: tests which containment levels work, reports them, then forks a guard
/// for each launch until its daemon is gone.
pub fn run() -> ExitCode {
    sys::close_from(3);
    sys::set_name(c"lw-nursery");
    limits::remember();
    let Ok(socket) = own_socket() else { return ExitCode::from(74) };
    let levels = Levels::find();
    sys::block_limit_signals();
    // Cached here, so that every fork has it.
    let _ = boot_id();
    sys::set_undumpable();
    sys::ignore_children();
    let hello = levels.write(Line::new("hello").with("version", VERSION));
    if rustix::net::send(&socket, hello.to_string().as_bytes(), SendFlags::NOSIGNAL).is_err() {
        return ExitCode::from(74);
    }
    while let Some((launch, reply_to)) = receive(&socket) {
        match sys::fork() {
            Ok(Fork::Child) => {
                drop(socket);
                guard::begin(launch, levels, reply_to)
            }
            Ok(Fork::Parent(_)) => {}
            Err(error) => {
                reply::send(&reply_to, &reply::refused(&format!("cannot fork: {error}")));
            }
        }
    }
    ExitCode::SUCCESS
}

/// Moves the socket away from stdin and closes the standard streams.
fn own_socket() -> std::io::Result<OwnedFd> {
    // SAFETY: the daemon gave us descriptor 0, and nothing else uses it yet.
    let given = unsafe { BorrowedFd::borrow_raw(0) };
    let socket = rustix::io::fcntl_dupfd_cloexec(given, 3)?;
    spawn::detach_stdio()?;
    Ok(socket)
}

/// Waits for a launch and the pipe for its answer; `None` if the daemon is gone.
fn receive(socket: &OwnedFd) -> Option<(OwnedFd, OwnedFd)> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut word = [0; 64];
        let mut into = [std::io::IoSliceMut::new(&mut word)];
        let received = rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match received {
            Ok(message) if message.bytes == 0 => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let mut fds = fds.flatten();
        if let (Some(launch), Some(reply)) = (fds.next(), fds.next()) {
            return Some((launch, reply));
        }
    }
}
