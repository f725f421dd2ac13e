//! The bytes of a request's body, read within bounds of size, time and memory.
//!
//! The memory is bounded for all requests together: a connection costs little, but six hundred large bodies that never end would
//! cost a gigabyte. A large body is not read at all before it has one of a few places. What a client sends of a refused body is still read,
//! or the client would see a broken connection instead of the reason.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a body may take, and how long it waits for a place. Clients are on the same machine.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client that was refused may pause before it gets the answer.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Bytes of a body that needs no place: an ordinary environment. A flood of large bodies does not keep these waiting.
const SMALL_BYTES: u64 = 32 << 10;

/// Large bodies that are read at once.
const PLACES: usize = 2;

/// Large bodies that are read or wait for a place. One more is refused at once, so that its connection is free again.
const QUEUED_MAX: usize = 8;

/// Refused bodies that are read at once. Without a place among them, the connection is just closed.
const DISCARDED_MAX: usize = 8;

/// Bytes of a body that are read in all if it is refused.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// Memory is the process's, so all servers of a process share it.
static LARGE: Large = Large::new(PLACES, QUEUED_MAX, DISCARDED_MAX);

/// The large bodies of a process.
struct Large {
    places: Semaphore,
    queue: Semaphore,
    refused: Semaphore,
}

impl Large {
    const fn new(places: usize, queue: usize, refused: usize) -> Large {
        let [places, queue, refused] =
            [Semaphore::const_new(places), Semaphore::const_new(queue), Semaphore::const_new(refused)];
        Large { places, queue, refused }
    }

    /// Reads a body of at most `max` bytes, in a place of its own.
    async fn receive(&self, body: Body, max: usize) -> Result<Vec<u8>, Unread> {
        if let Ok(_queued) = self.queue.try_acquire()
            && let Ok(Ok(_place)) = timeout(TIME_MAX, self.places.acquire()).await
        {
            return read(body, max).await;
        }
        if let Ok(_place) = self.refused.try_acquire() {
            // Too large for nothing at all: every byte is discarded.
            let _ = read(body, 0).await;
        }
        Err(Unread::Full)
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is larger than its request may be.
    TooLarge,
    /// Other large bodies have all places. The same request can be repeated.
    Full,
    /// It took too long.
    Late,
    /// The connection ended first.
    Incomplete,
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn receive(body: Body, max: usize) -> Result<Vec<u8>, Unread> {
    receive_beside(&LARGE, body, max).await
}

async fn receive_beside(large: &Large, body: Body, max: usize) -> Result<Vec<u8>, Unread> {
    match body.size_hint().upper() {
        Some(..=SMALL_BYTES) => read(body, max).await,
        _ => large.receive(body, max).await,
    }
}

async fn read(mut body: Body, max: usize) -> Result<Vec<u8>, Unread> {
    let deadline = Instant::now() + TIME_MAX;
    // At once, so that growing leaves nothing behind. What is not written takes no memory.
    let declared = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(max));
    let (mut seen, mut is_too_large) = (0_usize, false);
    loop {
        let until = if is_too_large { deadline.min(Instant::now() + PAUSE_MAX) } else { deadline };
        let frame = match timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            _ if is_too_large => break,
            Ok(Some(Err(_))) => return Err(Unread::Incomplete),
            Err(_) => return Err(Unread::Late),
        };
        let Some(data) = frame.data_ref() else { continue };
        seen += data.len();
        if !is_too_large && seen > max {
            (is_too_large, bytes) = (true, Vec::new());
        }
        match is_too_large {
            // Copied, since a frame keeps the whole buffer that it was read into.
            false => bytes.extend_from_slice(data),
            true if seen > DISCARDED_BYTES_MAX => break,
            true => {}
        }
    }
    if is_too_large { Err(Unread::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};

    use super::*;

    fn pieces(count: usize, bytes: usize) -> impl futures_util::Stream<Item = Result<Vec<u8>, Infallible>> {
        stream::iter((0..count).map(move |_| Ok(vec![b'x'; bytes])))
    }

    #[tokio::test]
    async fn a_body_arrives_whole_and_gives_its_place_back() {
        let large = Large::new(1, 1, 1);
        for _ in 0..2 {
            let body = Body::from_stream(pieces(1_000, 1_000));
            assert_eq!(receive_beside(&large, body, 1 << 20).await.map(|bytes| bytes.len()), Ok(1_000_000));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_that_never_end_are_not_read_without_a_place_and_leave_small_ones_alone() {
        let large: &Large = Box::leak(Box::new(Large::new(2, 5, 1)));
        let (seen, read) = std::sync::mpsc::channel();
        let flood: Vec<_> = (0..20)
            .map(|_| {
                let seen = seen.clone();
                let body = pieces(2_000, 1_000).inspect(move |_| seen.send(()).unwrap());
                let body = Body::from_stream(body.chain(stream::pending()));
                tokio::spawn(receive_beside(large, body, 2 << 20))
            })
            .collect();
        tokio::time::sleep(TIME_MAX / 2).await;
        assert_eq!(
            read.try_iter().count(),
            3 * 2_000,
            "two were read, one was read and discarded, the others were not"
        );
        assert_eq!(
            flood.iter().filter(|flood| flood.is_finished()).count(),
            15,
            "those beyond the queue are refused"
        );
        let small = receive_beside(large, Body::from(vec![b'x'; 30_000]), 2 << 20).await;
        assert_eq!(small.map(|bytes| bytes.len()), Ok(30_000));
        assert_eq!(receive_beside(large, Body::from(vec![b'x'; 40_000]), 2 << 20).await, Err(Unread::Full));
        for flood in flood {
            let ended = flood.await.unwrap();
            assert!(matches!(ended, Err(Unread::Full | Unread::Late)), "{ended:?}");
        }
        let body = Body::from(vec![b'x'; 40_000]);
        assert_eq!(receive_beside(large, body, 2 << 20).await.map(|bytes| bytes.len()), Ok(40_000));
    }

    #[tokio::test]
    async fn what_is_too_large_is_read_to_its_end() {
        let (seen, count) = std::sync::mpsc::channel();
        let body = pieces(3_000, 1_000).inspect(move |_| seen.send(()).unwrap());
        let large = Large::new(1, 1, 1);
        let refused = receive_beside(&large, Body::from_stream(body), 1 << 20).await;
        assert_eq!(refused, Err(Unread::TooLarge));
        assert_eq!(count.try_iter().count(), 3_000);
    }
}
