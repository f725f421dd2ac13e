//! A stream (SSE) that goes on after a break: the daemon may be killed, and the next one takes over. A stream of events is continued where it broke
//! off.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use lastword_api::{Event, Problem};
use serde_json::Value;

use crate::call::{Call, job_path};
use crate::client::{Client, Failed, PAUSE};
use crate::connection::Connection;
use crate::error::Error;
use crate::events::Filter;

/// A stream of events that goes on after the last one it returned.
#[derive(Debug)]
pub struct Events(Frames);

impl Client {
    /// Streams the events of a job after a place in its log, up to its end.
    pub fn follow_job(&self, reference: &str, filter: &Filter, after: Option<u64>) -> Events {
        let path = filter.query().after(&job_path(reference, "/events"));
        Events(self.frames(Call::get(path), after.map(|after| after.to_string())))
    }

    /// Streams the events of all jobs after a cursor, without end. An event may come twice after a break: its job and number tell.
    pub fn follow_all(&self, filter: &Filter, cursor: Option<String>) -> Events {
        Events(self.frames(Call::get(filter.query().after("/v1/events")), cursor))
    }

    /// Streams the frames of a call, from the one after `last`.
    pub(crate) fn frames(&self, call: Call<Value>, last: Option<String>) -> Frames {
        Frames {
            client: self.clone(),
            call,
            last,
            connections: 0,
            connection: None,
            reader: Reader::default(),
        }
    }
}

impl Events {
    /// Returns the next event; `None` after the last one. What is no event of this version is skipped.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let frame = self.0.next().await?;
            if frame.kind == "end" {
                return Ok(None);
            }
            if let Ok(event) = serde_json::from_str(&frame.data) {
                return Ok(Some(event));
            }
        }
    }
}

/// The frames of a stream, over as many connections as it takes.
#[derive(Debug)]
pub(crate) struct Frames {
    client: Client,
    call: Call<Value>,
    /// The id of the last frame that had one.
    last: Option<String>,
    connections: u64,
    connection: Option<(Connection, Incoming)>,
    reader: Reader,
}

impl Frames {
    /// Returns the number of connections so far: the last frame came over the last of them.
    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }

    /// Returns the next frame.
    pub(crate) async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.reader.take() {
                self.last = frame.id.clone().or(self.last.take());
                match frame.kind.as_str() {
                    "problem" => self.broke_off(&frame.data).await?,
                    "stopping" => self.client.notice_stopping(frame.data.as_bytes()),
                    _ => return Ok(frame),
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
                // The daemon went away, or cut a reader that was too slow.
                Some(Err(_)) | None => self.disconnect(),
            }
        }
    }

    /// Takes the daemon's reason to end the stream early: one that may pass is waited for.
    async fn broke_off(&mut self, data: &str) -> Result<(), Error> {
        self.disconnect();
        match serde_json::from_str::<Problem>(data) {
            Ok(problem) if !problem.retryable => Err(Error::Refused(Box::new(problem))),
            _ => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.reader = Reader::default();
    }

    async fn connect(&mut self) -> Result<(), Error> {
        loop {
            let call = self.call.clone().streamed(self.last.as_deref());
            match self.client.begin(&call).await {
                Ok((connection, response)) => {
                    self.connection = Some((connection, response.into_body()));
                    self.connections += 1;
                    return Ok(());
                }
                Err(Failed::Final(error) | Failed::Unavailable(error)) => return Err(error),
                Err(Failed::Starting(_) | Failed::WentAway(_)) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// One frame of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    id: Option<String>,
    /// What kind; `end` is the last one of a stream that has an end.
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Reads frames, in whatever pieces they come.
#[derive(Debug, Default)]
struct Reader {
    bytes: Vec<u8>,
    frame: Frame,
    ready: VecDeque<Frame>,
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
            if !self.frame.kind.is_empty() || !self.frame.data.is_empty() {
                self.ready.push_back(std::mem::take(&mut self.frame));
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.kind = value.to_owned(),
            "data" => {
                if !self.frame.data.is_empty() {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // A comment keeps the connection warm; `retry` is for browsers.
            _ => {}
        }
    }

    fn take(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_in_any_pieces() {
        let stream = b"retry: 2000\n\n: warm\n\nid: 1\nevent: launched\ndata: {\"a\":\ndata: 1}\n\r\nevent: end\ndata: {}\n\n";
        let frame = |id: Option<&str>, kind: &str, data: &str| Frame {
            id: id.map(str::to_owned),
            kind: kind.to_owned(),
            data: data.to_owned(),
        };
        let expected = [frame(Some("1"), "launched", "{\"a\":\n1}"), frame(None, "end", "{}")];
        for piece in [1, 2, 7, stream.len()] {
            let mut reader = Reader::default();
            stream.chunks(piece).for_each(|bytes| reader.feed(bytes));
            let read: Vec<_> = std::iter::from_fn(|| reader.take()).collect();
            assert_eq!(read, expected, "in pieces of {piece}");
        }
    }
}
