//! Questions of a server to a worker about attempts that it ran, and their answers, on the connection that the worker made.
//!
//! A question is JSON. An answer is a head as JSON, with its length before it, and after it the bytes of output as they are. What a worker
//! answers is checked against what was asked: agents can read its token.

use std::io;
use std::time::Duration;

use lastword_core::{AttemptNo, JobId, OwnerId, Timestamp};
use lastword_store::attempts::{Alive, Begin, NotRead, Part, Piece, Ran, Stream};
use serde::{Deserialize, Serialize};

use crate::frame::broken;

/// Questions to a worker that are under way at once, at most. Each may wait a second for output, so so many streams can be followed at
/// once without a delay.
pub(crate) const ASKED_MAX: usize = 64;

/// Bytes of output in an answer, at most.
pub(crate) const PIECE_MAX: usize = 256 << 10;

/// How long a worker waits for output before it answers with none. A question whose asker has gone takes its place no longer than that.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// Bytes of the head of an answer, at most.
const HEAD_MAX: usize = 4 << 10;

/// Pids in an answer, at most; characters of a worker's own words.
const PIDS_MAX: usize = 64;
const WORDS_MAX: usize = 300;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) job: JobId,
    pub(crate) attempt: u32,
    pub(crate) what: What,
}

/// What is asked about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Read {
        is_stderr: bool,
        /// Offset, or if `before_end` is set, bytes before the end.
        from: u64,
        before_end: bool,
        limit: u32,
        wait_ms: u32,
    },
    Alive,
    Resize {
        rows: u16,
        columns: u16,
    },
    /// All files of the job, whatever the attempt.
    RemoveFiles,
}

impl What {
    /// Asks for as much of a part as fits into an answer.
    pub(crate) fn read(stream: Stream, part: Part) -> What {
        let (from, before_end) = match part.from {
            Begin::At(offset) => (offset, false),
            Begin::BeforeEnd(bytes) => (bytes, true),
        };
        What::Read {
            is_stderr: stream == Stream::Stderr,
            from,
            before_end,
            limit: part.limit.min(PIECE_MAX) as u32,
            wait_ms: part.wait.min(WAIT_MAX).as_millis() as u32,
        }
    }
}

impl Ask {
    /// Returns the attempt that it is about, and the worker that ran it.
    pub(crate) fn of(&self, owner: OwnerId) -> Ran {
        Ran { job: self.job, attempt: AttemptNo(self.attempt), owner }
    }
}

/// Returns the part that a question is for, within the bounds of an answer.
pub(crate) fn part(from: u64, before_end: bool, limit: u32, wait_ms: u32) -> Part {
    Part {
        from: if before_end { Begin::BeforeEnd(from) } else { Begin::At(from) },
        limit: (limit as usize).min(PIECE_MAX),
        wait: Duration::from_millis(wait_ms.into()).min(WAIT_MAX),
    }
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// The bytes follow the head.
    Piece {
        offset: u64,
        skipped: u64,
        size: u64,
    },
    NoAttempt,
    Failed(String),
    Alive(Option<(u32, Vec<i32>)>),
    Resized(bool),
    Removed(bool),
    /// The worker cannot be asked, since then if that is known. A server says so, of a worker of its own.
    Away(Option<Timestamp>),
}

impl Told {
    /// Returns the answer to a read, and its bytes.
    pub(crate) fn of_read(read: Result<Piece, NotRead>) -> (Told, Vec<u8>) {
        match read {
            Ok(Piece { bytes, offset, skipped, size }) => (Told::Piece { offset, skipped, size }, bytes),
            Err(NotRead::NoAttempt) => (Told::NoAttempt, Vec::new()),
            Err(NotRead::Failed(why)) => (Told::Failed(why), Vec::new()),
            Err(NotRead::Away(_)) => (Told::Failed("it is not on this host".to_owned()), Vec::new()),
        }
    }

    /// Writes an answer.
    pub(crate) fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let head = serde_json::to_vec(self).unwrap_or_default();
        let mut body = Vec::with_capacity(4 + head.len() + bytes.len());
        body.extend((head.len() as u32).to_be_bytes());
        body.extend(head);
        body.extend(bytes);
        body
    }

    /// Reads an answer.
    pub(crate) fn decode(mut body: Vec<u8>) -> io::Result<(Told, Vec<u8>)> {
        let unread = || broken("an answer about an attempt that does not read");
        let length = body.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
        let length = length.filter(|length| *length <= HEAD_MAX).ok_or_else(unread)?;
        let head = body.get(4..4 + length).ok_or_else(unread)?;
        let told = serde_json::from_slice(head).map_err(|_| unread())?;
        body.drain(..4 + length);
        Ok((told, body))
    }

    /// Returns the piece that answers a question, if it does answer it.
    pub(crate) fn into_piece(self, bytes: Vec<u8>, asked: &Part) -> Result<Piece, NotRead> {
        let (offset, skipped, size) = match self {
            Told::Piece { offset, skipped, size } => (offset, skipped, size),
            Told::NoAttempt => return Err(NotRead::NoAttempt),
            Told::Failed(why) => return Err(NotRead::Failed(words(&why))),
            Told::Alive(_) | Told::Resized(_) | Told::Removed(_) | Told::Away(_) => return Err(nonsense()),
        };
        // A part that begins at an offset begins there, or after as many bytes as were skipped.
        let fits = match asked.from {
            Begin::At(from) => from.checked_add(skipped) == Some(offset),
            Begin::BeforeEnd(_) => skipped <= offset,
        };
        let end = offset.checked_add(bytes.len() as u64);
        match end.filter(|_| fits && bytes.len() <= asked.limit.min(PIECE_MAX)) {
            Some(end) => Ok(Piece { bytes, offset, skipped, size: size.max(end) }),
            None => Err(nonsense()),
        }
    }

    /// Returns the living processes.
    pub(crate) fn into_alive(self) -> Option<Alive> {
        let Told::Alive(Some((count, mut pids))) = self else { return None };
        pids.truncate(PIDS_MAX);
        Some(Alive { count, pids })
    }
}

/// The worker's answer is not one to what was asked.
fn nonsense() -> NotRead {
    NotRead::Failed("its worker answers something else than was asked".to_owned())
}

/// Returns a worker's own words, as far as they can be shown.
fn words(told: &str) -> String {
    told.chars().take(WORDS_MAX).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(from: Begin) -> Part {
        Part { from, limit: 4, wait: Duration::ZERO }
    }

    #[test]
    fn an_answer_comes_back_with_its_bytes() {
        let told = Told::Piece { offset: 7, skipped: 2, size: 99 };
        let (head, bytes) = Told::decode(told.encode(b"\0\xffab")).unwrap();
        assert_eq!((&head, bytes.as_slice()), (&told, &b"\0\xffab"[..]));
        let piece = head.into_piece(bytes, &asked(Begin::At(5))).unwrap();
        assert_eq!((piece.offset, piece.skipped, piece.size, piece.next()), (7, 2, 99, 11));
    }

    #[test]
    fn lengths_of_a_worker_are_not_trusted() {
        for body in
            [&b""[..], b"\0\0\0", b"\xff\xff\xff\xff{}", b"\0\0\0\x09{}", b"\0\0\0\x02{}", b"\0\0\x20\0{}"]
        {
            assert!(Told::decode(body.to_vec()).is_err(), "{body:?}");
        }
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let piece = |offset, skipped, size| Told::Piece { offset, skipped, size };
        for (told, bytes, from) in [
            // More bytes than were asked for.
            (piece(0, 0, 5), &b"12345"[..], Begin::At(0)),
            // Another place, before or after it, or one that does not exist.
            (piece(1, 0, 5), b"", Begin::At(2)),
            (piece(9, 0, 9), b"", Begin::At(2)),
            (piece(u64::MAX, u64::MAX - 2, 0), b"1234", Begin::At(2)),
            (piece(1, u64::MAX, 5), b"", Begin::At(2)),
            (piece(u64::MAX, 0, 0), b"1", Begin::BeforeEnd(3)),
            (piece(1, 2, 3), b"", Begin::BeforeEnd(3)),
            // Another kind.
            (Told::Resized(true), b"", Begin::At(0)),
            (Told::Alive(None), b"", Begin::At(0)),
        ] {
            let read = told.clone().into_piece(bytes.to_vec(), &asked(from));
            assert_eq!(read, Err(nonsense()), "{told:?}");
        }
        // It is never shorter than its bytes.
        assert_eq!(piece(3, 0, 0).into_piece(b"ab".to_vec(), &asked(Begin::At(3))).unwrap().size, 5);
    }

    #[test]
    fn words_of_a_worker_are_shown_as_text() {
        let told = Told::Failed(format!("\x1b[2Jgone\n{}", "x".repeat(1_000)));
        let Err(NotRead::Failed(shown)) = told.into_piece(Vec::new(), &asked(Begin::At(0))) else { panic!() };
        assert!(shown.starts_with("\\u{1b}[2Jgone\\nxxx"), "{shown}");
        assert!(shown.len() < 400);
    }

    #[test]
    fn pids_are_bounded() {
        let alive = Told::Alive(Some((9, vec![1; 1_000]))).into_alive().unwrap();
        assert_eq!((alive.count, alive.pids.len()), (9, PIDS_MAX));
    }
}
