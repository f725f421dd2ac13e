//! The keeper's end of the control socket: lines in, lines out, never waiting for anybody.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::input::WAITING_BYTES_MAX;
use crate::folder::Folder;
use crate::line::Line;
use crate::tree;

/// Connections at once: a daemon, its successor, and people who look.
const CLIENTS_MAX: usize = 16;

/// Longest request line.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Answers that may wait for a slow reader before it is cut off.
const OUTBOX_BYTES_MAX: usize = 64 << 10;

/// A request, with its payload.
pub(super) struct Request {
    pub(super) client: usize,
    pub(super) line: Line,
    pub(super) payload: Vec<u8>,
}

/// Everybody who is connected.
pub(super) struct Control {
    listener: OwnedFd,
    clients: Vec<Client>,
}

struct Client {
    socket: OwnedFd,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// A line that waits for its payload of so many bytes.
    awaits: Option<(Line, usize)>,
    watches: bool,
    gone: bool,
}

/// Binds the socket in its folder, private, and listens. Returns it with its name.
pub(super) fn listen(folder: &Folder) -> io::Result<(OwnedFd, String)> {
    let name = format!("ctl.{}", rustix::process::getpid().as_raw_nonzero());
    // A former process with our number may have left one.
    let _ = folder.remove(&name);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Through the descriptor, because a socket's address is short and paths are not. The folder is private.
    let others = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(folder.path_of(&name))?);
    rustix::process::umask(others);
    bound?;
    rustix::net::listen(&socket, CLIENTS_MAX as i32)?;
    Ok((socket, name))
}

impl Control {
    pub(super) fn new(listener: OwnedFd) -> Control {
        Control { listener, clients: Vec::new() }
    }

    /// Returns what to wait on: the listener, then each client, with whether it has something to be told.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let clients = self.clients.iter().map(|client| (client.socket.as_fd(), !client.outbox.is_empty()));
        [(self.listener.as_fd(), false)].into_iter().chain(clients)
    }

    /// Lets in who waits, if they are of this user and not of the tree. Whoever was here longest makes room. A turn's worth
    /// and no more: a tree that never stops coming must not keep its keeper from stopping it.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..CLIENTS_MAX {
            let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else { return };
            if !may_speak(&socket) {
                continue;
            }
            if self.clients.len() == CLIENTS_MAX {
                self.clients.remove(0);
            }
            self.clients.push(Client {
                socket,
                inbox: Vec::new(),
                outbox: Vec::new(),
                awaits: None,
                watches: false,
                gone: false,
            });
        }
    }

    /// Reads whatever clients have sent.
    pub(super) fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.flush();
            client.receive();
            while let Some((line, payload)) = client.next() {
                requests.push(Request { client: index, line, payload });
            }
        }
        requests
    }

    /// Answers a client.
    pub(super) fn answer(&mut self, client: usize, line: &Line) {
        if let Some(client) = self.clients.get_mut(client) {
            client.say(line);
        }
    }

    /// Makes a client hear of everything from now on.
    pub(super) fn watch(&mut self, client: usize) {
        if let Some(client) = self.clients.get_mut(client) {
            client.watches = true;
        }
    }

    /// Tells everybody who watches.
    pub(super) fn tell(&mut self, line: &Line) {
        self.clients.iter_mut().filter(|client| client.watches).for_each(|client| client.say(line));
    }

    /// Tells everybody who watches that there is more to read. Whoever has not taken what was said before will look anyway.
    pub(super) fn hint(&mut self, line: &Line) {
        let idle = |client: &&mut Client| client.watches && client.outbox.is_empty();
        self.clients.iter_mut().filter(idle).for_each(|client| client.say(line));
    }

    /// Forgets who is gone. Only between requests: they are known by their place.
    pub(super) fn forget(&mut self) {
        self.clients.retain(|client| !client.gone);
    }
}

/// Reports whether a peer may speak to a keeper: this user or root, but nobody that the keeper itself holds.
fn may_speak(socket: &OwnedFd) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(socket) else { return false };
    let keeper = rustix::process::getpid().as_raw_nonzero().get();
    let own = rustix::process::geteuid();
    (peer.uid == own || peer.uid.is_root()) && !tree::is_below(peer.pid.as_raw_nonzero().get(), keeper)
}

impl Client {
    fn receive(&mut self) {
        let mut chunk = [0; LINE_BYTES_MAX];
        let limit = self.awaits.as_ref().map_or(LINE_BYTES_MAX, |(_, bytes)| bytes + LINE_BYTES_MAX);
        while !self.gone && self.inbox.len() < limit {
            match rustix::net::recv(&self.socket, &mut chunk, RecvFlags::empty()) {
                Ok((0, _)) => self.gone = true,
                Ok((received, _)) => self.inbox.extend_from_slice(&chunk[..received]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => self.gone = true,
            }
        }
    }

    fn next(&mut self) -> Option<(Line, Vec<u8>)> {
        if self.awaits.is_none() {
            let end = self.inbox.iter().position(|byte| *byte == b'\n');
            let Some(end) = end.filter(|end| *end < LINE_BYTES_MAX) else {
                if self.inbox.len() >= LINE_BYTES_MAX {
                    self.refuse("too_long", "a request line has at most 4 KiB");
                }
                return None;
            };
            let line: Vec<u8> = self.inbox.drain(..=end).collect();
            let line = std::str::from_utf8(&line[..end]).ok().and_then(Line::parse);
            let Some(line) = line else {
                self.refuse("malformed", "a request is a line of words");
                return None;
            };
            // A length that is no number: what follows it must not be taken for requests.
            let bytes = line.bytes("bytes").map_or(0, |_| line.get("bytes").unwrap_or(usize::MAX));
            if bytes > WAITING_BYTES_MAX {
                self.refuse("too_long", "an input has at most 2 MiB");
                return None;
            }
            self.awaits = Some((line, bytes));
        }
        let bytes = self.awaits.as_ref().map(|(_, bytes)| *bytes)?;
        if self.inbox.len() < bytes {
            self.receive();
        }
        if self.inbox.len() < bytes {
            return None;
        }
        let (line, bytes) = self.awaits.take()?;
        Some((line, self.inbox.drain(..bytes).collect()))
    }

    fn refuse(&mut self, code: &str, words: &str) {
        self.say(&refusal(code, words));
        self.gone = true;
    }

    fn say(&mut self, line: &Line) {
        self.outbox.extend_from_slice(line.to_string().as_bytes());
        self.flush();
        self.gone |= self.outbox.len() > OUTBOX_BYTES_MAX;
    }

    fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match rustix::net::send(&self.socket, &self.outbox, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => {
                    self.gone = true;
                    self.outbox.clear();
                }
            }
        }
    }
}

/// Returns the answer to what will not be done.
pub(super) fn refusal(code: &str, words: &str) -> Line {
    Line::new("err").with("code", code).with("words", words)
}
