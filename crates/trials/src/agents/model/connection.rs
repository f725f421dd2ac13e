//! A connection of an agent to its model: HTTP/1.1, as much of it as agents speak, and an eye on whether they are still there.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock;

/// The longest request that is read: the tools of an agent take a hundred kilobytes, a history some megabytes.
const BODY_MAX: u64 = 64 << 20;

/// How often one that waits looks whether the agent is still there.
const LOOK: Duration = Duration::from_millis(20);

/// One connection.
pub(super) struct Connection(BufReader<TcpStream>);

/// What was sent.
pub(super) struct Sent {
    pub(super) method: String,
    /// Without what follows a question mark.
    pub(super) path: String,
    /// `Null` if it is not JSON.
    pub(super) body: Value,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        let _ = stream.set_nodelay(true);
        Connection(BufReader::new(stream))
    }

    /// Reads what is sent next; `None` is the end of the connection.
    pub(super) fn read(&mut self) -> io::Result<Option<Sent>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().and_then(|path| path.split('?').next()).unwrap_or_default().to_owned();
        let (mut length, mut in_chunks) = (0, false);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
                Some(("transfer-encoding", value)) => in_chunks = value.contains("chunked"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        if in_chunks {
            while let Some(piece) = self.read_chunk()? {
                body.extend(piece);
            }
        } else {
            (&mut self.0).take(u64::min(length, BODY_MAX)).read_to_end(&mut body)?;
        }
        Ok(Some(Sent { method, path, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
    }

    /// Reads a piece of a body that says its length as it goes; `None` is its end.
    fn read_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0).min(BODY_MAX);
        let mut piece = Vec::new();
        (&mut self.0).take(size).read_to_end(&mut piece)?;
        self.0.read_line(&mut String::new())?;
        Ok((size > 0).then_some(piece))
    }

    /// Answers at once.
    pub(super) fn answer(&mut self, status: u16, headers: &[(&str, String)], body: &str) -> io::Result<()> {
        let length = body.len();
        let mut head =
            format!("HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.0.get_mut().write_all(format!("{head}\r\n{body}").as_bytes())
    }

    /// Begins an answer that comes in pieces.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        self.0.get_mut().write_all(head.as_bytes())
    }

    /// Sends a piece; none is empty, for that would be the end.
    pub(super) fn piece(&mut self, text: &str) -> io::Result<()> {
        self.0.get_mut().write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }

    /// Ends an answer that came in pieces.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.0.get_mut().write_all(b"0\r\n\r\n")
    }

    /// Waits until `is_over`, or as long as `at_most`; an error if the agent goes away meanwhile.
    pub(super) fn wait(
        &mut self,
        at_most: Option<Duration>,
        mut is_over: impl FnMut() -> bool,
    ) -> io::Result<()> {
        let end = at_most.map(|at_most| Instant::now() + at_most);
        loop {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
            if is_over() || left.is_zero() {
                return Ok(());
            }
            self.look(left)?;
        }
    }

    /// Looks for a while whether the agent is still there.
    fn look(&mut self, at_most: Duration) -> io::Result<()> {
        let stream = self.0.get_ref();
        stream.set_read_timeout(Some(at_most))?;
        let looked = stream.peek(&mut [0]);
        stream.set_read_timeout(None)?;
        match looked {
            Ok(0) => Err(io::ErrorKind::ConnectionAborted.into()),
            // It has sent more, which is read when it is its turn.
            Ok(_) => {
                clock::rest(at_most);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Breaks the connection off, so that the agent sees a reset and not an end.
    pub(super) fn reset(self) -> io::Result<()> {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let size = size_of::<libc::linger>() as libc::socklen_t;
        // SAFETY: an option of a socket that is ours, from a value of the size that is given.
        let set = unsafe {
            let fd = self.0.get_ref().as_raw_fd();
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size)
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
