//! Asking about attempts of workers, whatever way a question takes: over the connection of a worker, or through another server.

use std::future::Future;
use std::time::Duration;

use lastword_core::{AttemptNo, JobId, OwnerId};
use lastword_store::attempts::{Alive, Begin, BoxFuture, NotRead, Part, Piece, Ran, Stream};
use tokio::time::{Instant, sleep, timeout};

use crate::ask::{Told, What};

/// How long a question about living processes or a terminal waits: a page shows the job without the answer.
const STATUS_MAX: Duration = Duration::from_secs(2);

/// Between two questions for output that is not there yet. A worker waits a second before it says so; this bounds one that does not.
const PAUSE: Duration = Duration::from_millis(20);

/// A way to ask workers.
pub(crate) trait Asks: Send + Sync + 'static {
    /// Asks the worker that ran an attempt.
    fn ask(&self, ran: &Ran, what: What) -> impl Future<Output = Result<(Told, Vec<u8>), NotRead>> + Send;
}

/// Reads a part of a stream.
pub(crate) fn read(
    asks: impl Asks,
    ran: Ran,
    stream: Stream,
    part: Part,
) -> BoxFuture<Result<Piece, NotRead>> {
    Box::pin(async move { read_part(&asks, &ran, stream, part).await })
}

/// Returns the living processes.
pub(crate) fn alive(asks: impl Asks, ran: Ran) -> BoxFuture<Option<Alive>> {
    Box::pin(async move {
        let asked = timeout(STATUS_MAX, asks.ask(&ran, What::Alive)).await;
        asked.ok()?.ok()?.0.into_alive()
    })
}

/// Changes the size of a terminal.
pub(crate) fn resize(asks: impl Asks, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
    Box::pin(async move {
        let asked = timeout(STATUS_MAX, asks.ask(&ran, What::Resize { rows, columns })).await;
        matches!(asked, Ok(Ok((Told::Resized(true), _))))
    })
}

/// Has the files of a job removed.
pub(crate) fn remove_files(asks: impl Asks, owner: OwnerId, job: JobId) -> BoxFuture<bool> {
    Box::pin(async move {
        let ran = Ran { job, attempt: AttemptNo(0), owner };
        matches!(asks.ask(&ran, What::RemoveFiles).await, Ok((Told::Removed(true), _)))
    })
}

/// Reads a part, which is as long as one answer may be.
async fn read_once(asks: &impl Asks, ran: &Ran, stream: Stream, part: Part) -> Result<Piece, NotRead> {
    let (told, bytes) = asks.ask(ran, What::read(stream, part)).await?;
    told.into_piece(bytes, &part)
}

async fn read_part(asks: &impl Asks, ran: &Ran, stream: Stream, part: Part) -> Result<Piece, NotRead> {
    let until = Instant::now() + part.wait;
    let mut piece = loop {
        let wait = until.saturating_duration_since(Instant::now());
        let read = read_once(asks, ran, stream, Part { wait, ..part }).await;
        let may_come = match &read {
            Ok(piece) => piece.bytes.is_empty(),
            Err(error) => *error == NotRead::NoAttempt,
        };
        if !may_come || Instant::now() >= until {
            break read?;
        }
        sleep(PAUSE).await;
    };
    // What is longer than an answer takes several.
    while !piece.bytes.is_empty() && piece.bytes.len() < part.limit && piece.next() < piece.size {
        let limit = part.limit - piece.bytes.len();
        let rest = Part { from: Begin::At(piece.next()), limit, wait: Duration::ZERO };
        let more = read_once(asks, ran, stream, rest).await?;
        if more.skipped > 0 || more.bytes.is_empty() {
            break;
        }
        piece.bytes.extend(more.bytes);
        piece.size = piece.size.max(more.size);
    }
    Ok(piece)
}
