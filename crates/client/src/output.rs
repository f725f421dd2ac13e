//! Requests for the output of a job, by offset, and for its result.

use hyper::body::Bytes;
use lastword_api::JobResult;

use crate::call::{Call, Query, job_path};
use crate::reply::{FromReply, Reply};

/// A part of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// `stdout` or `stderr`; stdout by default.
    pub stream: Option<&'a str>,
    /// Which attempt; the newest by default.
    pub attempt: Option<u32>,
    /// From this byte on.
    pub offset: Option<u64>,
    /// Instead of `offset`: this many bytes before the present end.
    pub tail: Option<u64>,
    /// At most this many bytes.
    pub limit: Option<u64>,
    /// How long to wait if there is no output yet.
    pub wait_ms: Option<u64>,
}

/// A piece of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub bytes: Bytes,
    /// Where the next piece begins.
    pub next: u64,
    /// Bytes that were not kept before this piece.
    pub skipped: u64,
    /// The present length of the recording.
    pub size: u64,
    /// No output follows this piece.
    pub is_end: bool,
}

impl FromReply for Piece {
    fn from_reply(reply: Reply) -> Result<Piece, String> {
        let number = |name: &str| reply.header(name).and_then(|value| value.parse().ok());
        Ok(Piece {
            next: number("lastword-next").ok_or("it has no `lastword-next`")?,
            skipped: number("lastword-skipped").unwrap_or(0),
            size: number("lastword-size").unwrap_or(0),
            is_end: reply.header("lastword-end") == Some("true"),
            bytes: reply.body,
        })
    }
}

/// Reads output.
pub fn read(reference: &str, part: &Part<'_>) -> Call<Piece> {
    let query = Query::default()
        .with("stream", part.stream)
        .with("attempt", part.attempt)
        .with("offset", part.offset)
        .with("tail", part.tail)
        .with("limit", part.limit)
        .with("wait", part.wait_ms.map(|ms| format!("{ms}ms")));
    Call::get(query.after(&job_path(reference, "/output")))
}

/// Returns the result of a job that has ended.
pub fn result(reference: &str) -> Call<JobResult> {
    Call::get(job_path(reference, "/result"))
}
