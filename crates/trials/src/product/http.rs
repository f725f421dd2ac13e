//! A client of the API: HTTP/1.1 over the daemon's socket, by hand. A trial that spoke through the product's own client
//! would share its mistakes, and could not tell a request that was never sent from one whose answer got lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The longest an answer may take: a long poll is at most a minute.
const ANSWER_MAX: Duration = Duration::from_secs(70);

/// The longest answer that is read. A page of 500 rows is far below.
const BODY_MAX: u64 = 64 << 20;

/// A connection that is kept as long as the daemon keeps it.
pub(crate) struct Client {
    socket: PathBuf,
    open: Option<BufReader<UnixStream>>,
}

/// What is asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// The key by which a repeated request is known as the same.
    pub(crate) key: Option<&'a str>,
    pub(crate) body: Option<&'a Value>,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Nobody listens: nothing was asked.
    Nobody(String),
    /// It was asked, and whether it was heard is not known.
    Cut(String),
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoAnswer::Nobody(why) => write!(to, "nobody listens: {why}"),
            NoAnswer::Cut(why) => write!(to, "cut off: {why}"),
        }
    }
}

impl Answer {
    /// Returns a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the body; nothing if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Reports whether it is a yes.
    pub(crate) fn is_fine(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the code of a problem, or the status of an answer that has none.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().map_or_else(|| self.status.to_string(), str::to_owned)
    }
}

impl Client {
    /// Speaks through this socket, once it is asked something.
    pub(crate) fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned(), open: None }
    }

    /// Asks, on the connection that is open or on a new one.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>) -> Result<Answer, NoAnswer> {
        let kept = self.open.is_some();
        match self.once(ask) {
            // A connection that a former daemon kept says nothing about this one; a read may be repeated.
            Err(NoAnswer::Cut(_)) if kept && ask.method == "GET" => self.once(ask),
            answer => answer,
        }
    }

    /// Reads a path.
    pub(crate) fn get(&mut self, path: &str) -> Result<Answer, NoAnswer> {
        self.ask(&Ask { method: "GET", path, ..Ask::default() })
    }

    /// Reads a path whose answer must be a yes in JSON.
    pub(crate) fn json(&mut self, path: &str) -> Result<Value, String> {
        let answer = self.get(path).map_err(|why| format!("GET {path}: {why}"))?;
        match answer.is_fine() {
            true => Ok(answer.json()),
            false => Err(format!("GET {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body))),
        }
    }

    fn once(&mut self, ask: &Ask<'_>) -> Result<Answer, NoAnswer> {
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => self.connect().map_err(|error| NoAnswer::Nobody(error.to_string()))?,
        };
        let cut = |error: std::io::Error| NoAnswer::Cut(error.to_string());
        stream.get_mut().write_all(&request(ask)).map_err(cut)?;
        let (answer, keep) = read(&mut stream).map_err(cut)?;
        self.open = keep.then_some(stream);
        Ok(answer)
    }

    fn connect(&self) -> std::io::Result<BufReader<UnixStream>> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(BufReader::new(stream))
    }
}

fn request(ask: &Ask<'_>) -> Vec<u8> {
    let body = ask.body.map(Value::to_string).unwrap_or_default();
    let mut text = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", ask.method, ask.path);
    if let Some(key) = ask.key {
        text.push_str(&format!("Idempotency-Key: {key}\r\n"));
    }
    if ask.body.is_some() {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(&body);
    text.into_bytes()
}

/// Reads one answer, and whether another may follow on the same connection.
fn read(stream: &mut impl BufRead) -> std::io::Result<(Answer, bool)> {
    let first = line(stream)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| broken(&format!("answered with {first:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| broken("a header without a colon"))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
    let mut keep = answer.header("connection").is_none_or(|word| !word.eq_ignore_ascii_case("close"));
    if answer.header("transfer-encoding").is_some_and(|word| word.eq_ignore_ascii_case("chunked")) {
        answer.body = chunks(stream)?;
    } else if let Some(length) = length {
        answer.body = exactly(stream, length)?;
    } else if status != 204 && status != 304 {
        stream.take(BODY_MAX).read_to_end(&mut answer.body)?;
        keep = false;
    }
    Ok((answer, keep))
}

fn line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    stream.take(64 << 10).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.trim_end_matches('\r').to_owned()),
        None => Err(broken("the answer ends in its head")),
    }
}

fn exactly(stream: &mut impl BufRead, length: u64) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let read = stream.take(length.min(BODY_MAX)).read_to_end(&mut body)?;
    match read as u64 == length {
        true => Ok(body),
        false => Err(broken("the answer ends in its body")),
    }
}

fn chunks(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| broken("a chunk without its size"))?;
        body.extend(exactly(stream, size)?);
        if !line(stream)?.is_empty() {
            return Err(broken("a chunk is longer than it says"));
        }
        if size == 0 {
            return Ok(body);
        }
    }
}

fn broken(why: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> std::io::Result<(Answer, bool)> {
        read(&mut BufReader::new(text.as_bytes()))
    }

    #[test]
    fn an_answer_is_read_whichever_way_its_end_is_told() {
        let (counted, keep) =
            answered("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nX-Y: z\r\n\r\n{}").unwrap();
        assert_eq!((counted.status, counted.body.as_slice(), keep), (202, &b"{}"[..], true));
        assert_eq!(counted.header("x-y"), Some("z"));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(answered(chunked).unwrap().0.body, b"abcd");
        let (closed, keep) = answered("HTTP/1.1 200 OK\r\n\r\nrest").unwrap();
        assert_eq!((closed.body.as_slice(), keep), (&b"rest"[..], false));
    }

    #[test]
    fn an_answer_that_was_cut_is_no_answer() {
        for cut in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "nonsense\r\n"]
        {
            assert!(answered(cut).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn a_request_carries_its_key_and_the_length_of_its_body() {
        let body = serde_json::json!({"a": 1});
        let ask = Ask { method: "POST", path: "/v1/jobs", key: Some("k"), body: Some(&body) };
        let text = String::from_utf8(request(&ask)).unwrap();
        assert!(text.starts_with("POST /v1/jobs HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("\r\nIdempotency-Key: k\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 7\r\n\r\n{\"a\":1}"), "{text}");
    }

    #[test]
    fn nobody_and_cut_off_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        assert!(matches!(Client::new(&socket).get("/"), Err(NoAnswer::Nobody(_))));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let hangs_up = std::thread::spawn(move || listener.accept().map(drop));
        assert!(matches!(Client::new(&socket).get("/"), Err(NoAnswer::Cut(_))));
        hangs_up.join().unwrap().unwrap();
    }
}
