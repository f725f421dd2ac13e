//! Who is at the other end of a local socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{identity, sys};

/// The process that connected to a socket, as the kernel noted it then.
#[derive(Debug)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its number; zero if it cannot be seen from here.
    pub pid: i32,
    /// The process itself. `None` if it was gone already, or cannot be seen.
    process: Option<OwnedFd>,
}

impl Peer {
    /// Returns who connected.
    ///
    /// The number alone may belong to somebody else by now, so the kernel is asked for the process itself. Kernels before 6.5
    /// do not give it: there it is opened by its number, which is right unless the peer ended and its number was given away
    /// between its connect and this call.
    pub fn of(socket: impl AsFd) -> io::Result<Peer> {
        let socket = socket.as_fd();
        let (pid, uid) = sys::peer_credentials(socket)?;
        let process = match sys::peer_process(socket) {
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => identity::pidfd(pid),
            told => told.ok(),
        };
        Ok(Peer { uid, pid, process })
    }

    /// Reports whether it lives, so that its number still means it. Asked after something was read by that number, the answer
    /// holds for what was read.
    pub fn is_there(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let mut death = [PollFd::new(process, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut death, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))) == Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn this_process_is_its_own_peer() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!(peer.pid, rustix::process::getpid().as_raw_nonzero().get());
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert!(peer.is_there());
    }

    #[test]
    fn c22_a_peer_that_ended_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // A child that connects and ends; what it leaves in the queue is accepted after it is gone.
        match sys::fork().unwrap() {
            sys::Fork::Child => {
                let connected = UnixStream::connect(&path);
                sys::exit(i32::from(connected.is_err()));
            }
            sys::Fork::Parent(pid) => {
                let child = rustix::process::Pid::from_raw(pid).unwrap();
                rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
                let (socket, _) = listener.accept().unwrap();
                let peer = Peer::of(&socket).unwrap();
                assert_eq!(peer.pid, pid);
                assert!(!peer.is_there(), "it has ended, whoever has its number now");
            }
        }
    }
}
