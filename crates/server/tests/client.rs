//! A minimal client. On purpose not the product's own, so that tests see what is on the wire.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// How long a response may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(90);

/// Sends requests to a socket, one connection each.
#[derive(Clone, Debug)]
pub(crate) struct Client(PathBuf);

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks that this is a complete problem, and returns its status and code.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(
            self.headers.get("content-type").map(String::as_str),
            Some("application/problem+json"),
            "{}",
            self.text()
        );
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let code = problem["code"].as_str().unwrap().to_owned();
        assert_eq!(problem["type"], format!("urn:lastword:problem:{code}"));
        for field in ["title", "detail", "instance"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {problem}");
        }
        (self.status, code)
    }

    /// Checks the status, and returns the body.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

impl Client {
    pub(crate) fn new(socket: &Path) -> Client {
        Client(socket.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[], body.to_string().as_bytes())
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut socket = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: lastword\r\nconnection: close\r\n");
        if !body.is_empty() {
            head.push_str("content-type: application/json\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        socket.write_all(head.as_bytes()).unwrap();
        // A server that refuses a large body may close the connection before it has read all of it.
        let _ = socket.write_all(body);
        read(socket).0
    }

    /// Opens a stream of events.
    pub(crate) fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut socket = self.connect();
        let mut head = format!("GET {path} HTTP/1.1\r\nhost: lastword\r\naccept: text/event-stream\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(socket);
        let head = head_of(&mut reader);
        Events { status: head.status, headers: head.headers, reader, rest: String::new() }
    }

    /// Connects, for requests that no client would send.
    pub(crate) fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.0).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

/// Reads one response, and the rest until the connection is closed.
pub(crate) fn read(socket: UnixStream) -> (Answer, Vec<u8>) {
    let mut reader = BufReader::new(socket);
    let mut answer = head_of(&mut reader);
    let length = answer.headers.get("content-length").map(|length| length.parse().unwrap());
    answer.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut answer.body).unwrap();
    let mut rest = Vec::new();
    // A reset counts as the end.
    let _ = reader.read_to_end(&mut rest);
    (answer, rest)
}

fn head_of(reader: &mut BufReader<UnixStream>) -> Answer {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not an answer: {line:?}"));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Answer { status, headers, body: Vec::new() }
}

/// A stream of events.
pub(crate) struct Events {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    reader: BufReader<UnixStream>,
    rest: String,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Iterator for Events {
    type Item = Frame;

    /// Returns the next event; `None` when the stream has ended. Heartbeats and settings are skipped.
    fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.rest.find("\n\n") {
                let text: String = self.rest.drain(..end + 2).collect();
                let field = |name: &str| {
                    let mut lines =
                        text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                    lines.next().map(str::to_owned)
                };
                if let Some(event) = field("event") {
                    let data = serde_json::from_str(&field("data").unwrap()).unwrap();
                    return Some(Frame { id: field("id"), event, data });
                }
            }
            self.read_chunk()?;
        }
    }
}

impl Events {
    fn read_chunk(&mut self) -> Option<()> {
        let mut size = String::new();
        self.reader.read_line(&mut size).ok().filter(|read| *read > 0)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        (size > 0).then_some(())
    }
}
