//! Attempts: what the host that ran one can be asked about it. Its output is in files there, so it is read by offset, wherever that is.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lastword_core::{AttemptNo, Job, JobId, OwnerId, Timestamp};

/// A future behind a pointer, so that a trait can be used as a trait object.
pub type BoxFuture<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Answers for attempts: this machine for those that it ran, a server for those of its workers.
pub trait Attempts: Send + Sync + 'static {
    /// Reads a part of a recorded stream. If there are no bytes yet, waits for them as long as the part says.
    fn read(&self, _: Ran, _: Stream, _: Part) -> BoxFuture<Result<Piece, NotRead>> {
        Box::pin(std::future::ready(Err(NotRead::NoAttempt)))
    }

    /// Returns the living processes of an attempt's tree; `None` if they are not known.
    fn alive(&self, _: Ran) -> BoxFuture<Option<Alive>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns an attempt's tree as it is now; `None` if it is not known.
    fn tree(&self, _: Ran) -> BoxFuture<Option<LiveTree>> {
        Box::pin(std::future::ready(None))
    }

    /// Changes the size of an attempt's terminal; reports whether its keeper did.
    fn resize(&self, _: Ran, _rows: u16, _columns: u16) -> BoxFuture<bool> {
        Box::pin(std::future::ready(false))
    }

    /// Removes all files of a job on the host of this owner, unless a tree of it is alive there; reports whether they are gone.
    fn remove_files(&self, _: OwnerId, _: JobId) -> BoxFuture<bool> {
        Box::pin(std::future::ready(false))
    }
}

/// An attempt, and the owner that ran it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptNo,
    /// The owner.
    pub owner: OwnerId,
}

impl Ran {
    /// Returns an attempt of a job; `None` if it has no such attempt.
    pub fn of(job: &Job, attempt: AttemptNo) -> Option<Ran> {
        let attempt = job.attempts.iter().find(|known| known.no == attempt)?;
        Some(Ran { job: job.id, attempt: attempt.no, owner: attempt.owner.clone() })
    }
}

/// A stream of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; all output of a job with a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Returns its name in the attempt's folder.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// Which part of a stream to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub from: Begin,
    /// Bytes, at most.
    pub limit: usize,
    /// How long to wait if there are none yet.
    pub wait: Duration,
}

/// Where a part of a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this offset.
    At(u64),
    /// So many bytes before the present end.
    BeforeEnd(u64),
}

/// A part of a stream, as it was read. It ends at a gap: the next one says how wide that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The offset of the first byte. Greater than the one asked for if the bytes in between were not kept.
    pub offset: u64,
    /// The number of bytes in between.
    pub skipped: u64,
    /// The present size of the stream.
    pub size: u64,
}

impl Piece {
    /// Returns the offset after the last byte.
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// Why output was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// The host has nothing of the attempt: it was not launched yet, or it was removed.
    NoAttempt,
    /// The host cannot be asked, since then if that is known.
    Away(Option<Timestamp>),
    /// Something went wrong.
    Failed(String),
}

/// The living processes of a tree, as its keeper reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// Their number.
    pub count: u32,
    /// The pids of some of them.
    pub pids: Vec<i32>,
}

/// A tree as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveTree {
    /// Its living processes, parents before children.
    pub processes: Vec<LiveProcess>,
    /// There may be more.
    pub is_cut: bool,
}

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// Its pid.
    pub pid: i32,
    /// Its parent, if that is one of them.
    pub parent: Option<i32>,
    /// Its command line, in one line, cut.
    pub command: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// It is in another session than the first process.
    pub left_session: bool,
    /// Milliseconds of CPU time that it used.
    pub cpu_ms: u64,
    /// Bytes of memory that are resident.
    pub resident: u64,
}
