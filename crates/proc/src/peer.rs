//! The process at the other end of a local socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{identity, sys};

/// The process that connected to a socket, as the kernel recorded it.
#[derive(Debug)]
pub struct Peer {
    /// Its user id.
    pub uid: u32,
    /// Its pid; 0 if it is outside our pid namespace.
    pub pid: i32,
    /// Its pidfd; `None` if it was gone already or is not visible.
    process: Option<OwnedFd>,
}

impl Peer {
    /// Returns the process that connected.
    ///
    /// Its pid may have been reused, so the kernel is asked for a pidfd. Kernels before 6.5 do not provide one: there it is opened by pid,
    /// which is correct unless the peer exited and its pid was reused between its connect and this call.
    pub fn of(socket: impl AsFd) -> io::Result<Peer> {
        let socket = socket.as_fd();
        let (pid, uid) = sys::peer_credentials(socket)?;
        let process = match sys::peer_process(socket) {
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => identity::pidfd(pid),
            opened => opened.ok(),
        };
        Ok(Peer { uid, pid, process })
    }

    /// Reports whether it is alive, so that its pid is still its own. Call this after reading something by pid: if it is true, what was read
    /// belongs to the peer.
    pub fn is_alive(&self) -> bool {
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
        assert!(peer.is_alive());
    }

    #[test]
    fn c22_a_peer_that_exited_is_not_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // The child connects and exits; its connection is accepted after it is gone.
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
                assert!(!peer.is_alive(), "it has exited, even if its pid was reused");
            }
        }
    }
}
