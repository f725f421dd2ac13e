//! A stream of events, gone on with where it broke off: the daemon may be killed and the next one takes over.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use lastword_api::Problem;

use super::{Call, Client, Lost, Sender};
use crate::failure::Failure;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// What kind; `end` is the last one.
    pub(crate) kind: String,
    /// What is said.
    pub(crate) data: String,
}

/// A stream that goes on after whatever was heard last.
pub(crate) struct Events {
    client: Client,
    call: Call,
    last: Option<String>,
    connection: Option<(Sender, Incoming)>,
    reader: Reader,
}

impl Events {
    /// Returns the stream of a call, after a place in it.
    pub(crate) fn new(client: &Client, call: Call, after: Option<String>) -> Events {
        Events { client: client.clone(), call, last: after, connection: None, reader: Reader::default() }
    }

    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Sent>, Failure> {
        loop {
            if let Some((id, sent)) = self.reader.take() {
                self.last = id.or(self.last.take());
                match sent.kind.as_str() {
                    "end" => return Ok(None),
                    "problem" => self.broke_off(&sent).await?,
                    _ => return Ok(Some(sent)),
                }
                continue;
            }
            if self.connection.is_none() {
                self.connect().await?;
            }
            let Some((_, body)) = &mut self.connection else { continue };
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.reader.feed(data);
                    }
                }
                // The daemon went away, or cut a listener that was too slow.
                Some(Err(_)) | None => {
                    self.connection = None;
                    self.reader = Reader::default();
                }
            }
        }
    }

    /// Takes the daemon's reason to end the stream before its end: one that may pass is waited for.
    async fn broke_off(&mut self, sent: &Sent) -> Result<(), Failure> {
        self.connection = None;
        match serde_json::from_str::<Problem>(&sent.data) {
            Ok(problem) if !problem.retryable => Err(Failure::of(problem)),
            _ => {
                tokio::time::sleep(super::PAUSE).await;
                Ok(())
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        loop {
            let call = self.call.clone().stream(self.last.as_deref());
            match self.client.open(&call).await {
                Ok((sender, response)) => {
                    self.connection = Some((sender, response.into_body()));
                    return Ok(());
                }
                Err(Lost::Told(failure) | Lost::Unavailable(failure)) => return Err(failure),
                Err(Lost::Starting(_) | Lost::Connection(_)) => tokio::time::sleep(super::PAUSE).await,
            }
        }
    }
}

/// Reads the lines of a stream, in whatever pieces they come.
#[derive(Default)]
struct Reader {
    bytes: Vec<u8>,
    id: Option<String>,
    kind: String,
    data: String,
    ready: std::collections::VecDeque<(Option<String>, Sent)>,
}

impl Reader {
    fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\n', '\r']));
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            let sent = Sent { kind: std::mem::take(&mut self.kind), data: std::mem::take(&mut self.data) };
            if sent != Sent::default() {
                self.ready.push_back((self.id.take(), sent));
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.kind = value.to_owned(),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // A comment keeps the connection warm; `retry` is for browsers.
            _ => {}
        }
    }

    fn take(&mut self) -> Option<(Option<String>, Sent)> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_any_pieces() {
        let stream = b"retry: 2000\n\n: warm\n\nid: 1\nevent: launched\ndata: {\"a\":\ndata: 1}\n\r\nevent: end\ndata: {}\n\n";
        let sent = |kind: &str, data: &str| Sent { kind: kind.into(), data: data.into() };
        let expected = [(Some("1".to_owned()), sent("launched", "{\"a\":\n1}")), (None, sent("end", "{}"))];
        for piece in [1, 2, 7, stream.len()] {
            let mut reader = Reader::default();
            stream.chunks(piece).for_each(|bytes| reader.feed(bytes));
            let read: Vec<_> = std::iter::from_fn(|| reader.take()).collect();
            assert_eq!(read, expected, "in pieces of {piece}");
        }
    }
}
