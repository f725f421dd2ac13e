//! Attempts of this machine: their recordings, read by offset, and what their keepers answer.

use std::io;
use std::time::Duration;

use lastword_core::{AttemptNo, JobId, OwnerId, Timestamp};
use lastword_proc::{self as proc, Error, Recording};
use lastword_store::attempts::{
    Alive, Attempts, Begin, BoxFuture, LiveProcess, LiveTree, NotRead, Part, Piece, Ran, Stream,
};
use tokio::time::Instant;

use super::local::LocalHost;
use super::traits::JobFiles;

/// How long a status question waits for a keeper, which answers within a millisecond unless it is stopped.
const STATUS_MAX: Duration = Duration::from_millis(500);

/// Processes of a tree that are listed.
const PROCESSES_MAX: usize = 500;

/// Recordings are polled, since nothing announces their growth: first after this pause, then with longer ones. A poll takes
/// microseconds.
const POLL_FIRST: Duration = Duration::from_millis(2);
const POLL_LAST: Duration = Duration::from_millis(64);

impl Attempts for LocalHost {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        let host = self.clone();
        Box::pin(async move {
            let until = Instant::now() + part.wait;
            let (mut recording, mut pause) = (None, POLL_FIRST);
            loop {
                let (read, opened) = host.read_now(&ran, stream, recording, part).await;
                let has_more = read.as_ref().is_ok_and(|piece| !piece.bytes.is_empty());
                let may_come = matches!(read, Ok(_) | Err(NotRead::NoAttempt));
                if has_more || !may_come || Instant::now() >= until {
                    return read;
                }
                recording = opened;
                tokio::time::sleep_until(until.min(Instant::now() + pause)).await;
                pause = (pause * 2).min(POLL_LAST);
            }
        })
    }

    fn alive(&self, ran: Ran) -> BoxFuture<Option<Alive>> {
        let host = self.clone();
        Box::pin(async move {
            let asked = host.blocking(move |host| host.keeper(ran.job, ran.attempt)?.status());
            let status = asked.await.ok().and_then(Result::ok)?;
            Some(Alive { count: status.alive, pids: status.pids })
        })
    }

    fn tree(&self, ran: Ran) -> BoxFuture<Option<LiveTree>> {
        let host = self.clone();
        Box::pin(async move {
            let looked = host.blocking(move |host| {
                let (members, is_cut) = proc::members(&host.dir(ran.job, ran.attempt), PROCESSES_MAX)?;
                Some(LiveTree { processes: members.into_iter().map(live_process).collect(), is_cut })
            });
            looked.await.ok().flatten()
        })
    }

    fn resize(&self, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        let host = self.clone();
        Box::pin(async move {
            let asked = host.blocking(move |host| host.keeper(ran.job, ran.attempt)?.resize(rows, columns));
            asked.await.is_ok_and(|done| done.is_ok())
        })
    }

    fn remove_files(&self, _: OwnerId, job: JobId) -> BoxFuture<bool> {
        let host = self.clone();
        Box::pin(async move {
            let is_kept = host.0.keepers.kept().iter().any(|(kept, _)| *kept == job);
            !is_kept && JobFiles::remove(&host, job, Vec::new()).await.is_ok()
        })
    }
}

impl LocalHost {
    /// Reads without waiting, outside the threads that serve requests, and returns the open recording for the next read. It does not wait
    /// for its turn behind launches and sweeps.
    async fn read_now(
        &self,
        ran: &Ran,
        stream: Stream,
        opened: Option<Recording>,
        part: Part,
    ) -> (Result<Piece, NotRead>, Option<Recording>) {
        let dir = self.dir(ran.job, ran.attempt);
        let reading = tokio::task::spawn_blocking(move || {
            let recording = opened.map_or_else(|| Recording::open(&dir, stream.name()), Ok);
            let mut recording = match recording {
                Ok(recording) => recording,
                Err(error) => return (Err(not_read(error)), None),
            };
            (read(&mut recording, part).map_err(not_read), Some(recording))
        });
        let panicked = |_| (Err(NotRead::Failed("the recording cannot be read".to_owned())), None);
        reading.await.unwrap_or_else(panicked)
    }

    /// Connects to a keeper to ask it something. Epoch 0 claims nothing.
    fn keeper(&self, job: JobId, attempt: AttemptNo) -> Result<proc::Keeper, Error> {
        Ok(proc::Keeper::connect(&self.dir(job, attempt), 0)?.with_timeout(STATUS_MAX))
    }
}

/// Reads a part. Stops at a gap after the first byte: the next read reports its size.
fn read(recording: &mut Recording, part: Part) -> Result<Piece, Error> {
    let size = recording.size()?;
    let offset = match part.from {
        Begin::At(offset) => offset,
        Begin::BeforeEnd(bytes) => size.saturating_sub(bytes),
    };
    // Allocate no more than there is to read.
    let room = usize::try_from(size.saturating_sub(offset)).unwrap_or(part.limit).min(part.limit);
    let mut bytes = vec![0; room];
    let first = recording.read(offset, &mut bytes)?;
    let mut filled = first.bytes;
    // A read may return less than `room`: it ends at a hole, or where the file ended at that moment.
    while filled < room && filled > 0 {
        let more = recording.read(first.offset + filled as u64, &mut bytes[filled..])?;
        if more.skipped > 0 || more.bytes == 0 {
            break;
        }
        filled += more.bytes;
    }
    bytes.truncate(filled);
    // The recording may have grown since its size was read, but the size must not be less than the offset.
    Ok(Piece { bytes, offset: first.offset, skipped: first.skipped, size: size.max(first.offset) })
}

fn live_process(member: proc::Member) -> LiveProcess {
    let proc::Member { pid, parent, command, started_ms, left_session, cpu_ms, resident } = member;
    let started_at = Timestamp(started_ms);
    LiveProcess { pid, parent, command, started_at, left_session, cpu_ms, resident }
}

fn not_read(error: Error) -> NotRead {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => NotRead::NoAttempt,
        other => NotRead::Failed(other.to_string()),
    }
}
