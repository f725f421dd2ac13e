//! The keeper's end of the control socket. It never blocks.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::input::QUEUED_BYTES_MAX;
use crate::folder::Folder;
use crate::line_format::Line;
use crate::tree;

/// Concurrent connections: the daemon, its successor, and people inspecting the job.
const CLIENTS_MAX: usize = 16;

/// The length limit of a request line.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Bytes of answers queued for a slow reader before it is disconnected.
const OUTBOX_BYTES_MAX: usize = 64 << 10;

/// A request, with its payload.
pub(super) struct Request {
    pub(super) client: usize,
    pub(super) line: Line,
    pub(super) payload: Vec<u8>,
}

/// All connected clients.
pub(super) struct Control {
    listener: OwnedFd,
    clients: Vec<Client>,
}

struct Client {
    socket: OwnedFd,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// A parsed line and the length of the payload it is waiting for.
    awaits: Option<(Line, usize)>,
    watches: bool,
    gone: bool,
}

/// Returns the name of the socket of a guard.
pub(super) fn socket_name() -> String {
    format!("ctl.{}", rustix::process::getpid().as_raw_nonzero())
}

/// Binds a private socket in the folder and listens.
pub(super) fn listen(folder: &Folder, name: &str) -> io::Result<OwnedFd> {
    // A former process with our pid may have left one.
    let _ = folder.remove(name);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Through the descriptor, because socket addresses are limited to 108 bytes.
    let others = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &SocketAddrUnix::new(folder.path_of(name))?);
    rustix::process::umask(others);
    bound?;
    rustix::net::listen(&socket, CLIENTS_MAX as i32)?;
    Ok(socket)
}

impl Control {
    pub(super) fn new(listener: OwnedFd) -> Control {
        Control { listener, clients: Vec::new() }
    }

    /// Accepts clients from another socket from now on.
    pub(super) fn listen_on(&mut self, listener: OwnedFd) {
        self.listener = listener;
    }

    /// Returns what to poll: the listener, then each client, with whether it has output pending.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let clients = self.clients.iter().map(|client| (client.socket.as_fd(), !client.outbox.is_empty()));
        [(self.listener.as_fd(), false)].into_iter().chain(clients)
    }

    /// Accepts peers of our uid from outside the tree; evicts the oldest when full. The number per call is bounded: a tree that keeps
    /// connecting must not prevent its keeper from stopping it.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..CLIENTS_MAX {
            let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else { return };
            if !may_connect(&socket) {
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

    /// Reads the requests of all clients.
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
            client.send(line);
        }
    }

    /// Subscribes a client to all events from now on.
    pub(super) fn watch(&mut self, client: usize) {
        if let Some(client) = self.clients.get_mut(client) {
            client.watches = true;
        }
    }

    /// Sends an event to all watchers.
    pub(super) fn notify(&mut self, line: &Line) {
        self.clients.iter_mut().filter(|client| client.watches).for_each(|client| client.send(line));
    }

    /// Notifies all watchers that there is more to read. Skips clients with output pending: they will read anyway.
    pub(super) fn notify_idle(&mut self, line: &Line) {
        let idle = |client: &&mut Client| client.watches && client.outbox.is_empty();
        self.clients.iter_mut().filter(idle).for_each(|client| client.send(line));
    }

    /// Drops closed connections. Not between requests of one turn, which refer to clients by index.
    pub(super) fn drop_closed(&mut self) {
        self.clients.retain(|client| !client.gone);
    }
}

/// Reports whether a peer may control this keeper: this user or root, from outside the tree.
fn may_connect(socket: &OwnedFd) -> bool {
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
                    self.refuse("too_long", "a request line is limited to 4 KiB");
                }
                return None;
            };
            let line: Vec<u8> = self.inbox.drain(..=end).collect();
            let line = std::str::from_utf8(&line[..end]).ok().and_then(Line::parse);
            let Some(line) = line else {
                self.refuse("malformed", "the request line cannot be parsed");
                return None;
            };
            // A malformed length: what follows must not be parsed as requests.
            let bytes = line.bytes("bytes").map_or(0, |_| line.get("bytes").unwrap_or(usize::MAX));
            if bytes > QUEUED_BYTES_MAX {
                self.refuse("too_long", "an input is limited to 2 MiB");
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

    fn refuse(&mut self, code: &str, reason: &str) {
        self.send(&refusal(code, reason));
        self.gone = true;
    }

    fn send(&mut self, line: &Line) {
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

/// Returns the answer to a refused request.
pub(super) fn refusal(code: &str, reason: &str) -> Line {
    Line::new("err").with("code", code).with("words", reason)
}
