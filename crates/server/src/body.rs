//! The bytes of a request's body, read within bounds of size, time and memory.
//!
//! The memory is bounded for all requests together: a connection costs little, but six hundred large bodies that never end would
//! cost a gigabyte. What a client sends of a refused body is still read, or the client would see a broken connection instead of the reason.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// How long a body may take. Clients are on the same machine.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes that every body may have in memory: an ordinary environment. A flood of large bodies does not refuse these.
const SMALL_BYTES: usize = 32 << 10;

/// KiB of all bodies together beyond [`SMALL_BYTES`] each: four of the largest.
const POOL_KIB: usize = 8 << 10;

/// How long a client that was refused may pause before it gets the answer.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Bytes of a body that are read in all if it is refused.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// Memory is the process's, so all servers of a process share it.
static POOL: Semaphore = Semaphore::const_new(POOL_KIB);

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is larger than its request may be.
    TooLarge,
    /// Other bodies take up the memory there is. The same request can be repeated.
    Full,
    /// It took too long.
    Late,
    /// The connection ended first.
    Incomplete,
}

/// A body in memory. Its memory is given back when it is dropped.
pub(crate) struct Received {
    bytes: Vec<u8>,
    _memory: Option<SemaphorePermit<'static>>,
}

impl Received {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn receive(body: Body, max: usize) -> Result<Received, Unread> {
    receive_from(&POOL, body, max).await
}

async fn receive_from(pool: &'static Semaphore, mut body: Body, max: usize) -> Result<Received, Unread> {
    let deadline = Instant::now() + TIME_MAX;
    let (mut bytes, mut memory, mut read) = (Vec::new(), None, 0_usize);
    let mut refused = None;
    loop {
        let until = if refused.is_some() { deadline.min(Instant::now() + PAUSE_MAX) } else { deadline };
        let frame = match timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(refused.unwrap_or(Unread::Incomplete)),
            Err(_) => return Err(refused.unwrap_or(Unread::Late)),
        };
        let Some(data) = frame.data_ref() else { continue };
        read += data.len();
        if refused.is_none() {
            refused = keep(pool, &mut bytes, &mut memory, data, max).err();
        }
        if refused.is_some() {
            (bytes, memory) = (Vec::new(), None);
            if read > DISCARDED_BYTES_MAX {
                break;
            }
        }
    }
    match refused {
        None => Ok(Received { bytes, _memory: memory }),
        Some(why) => Err(why),
    }
}

/// Appends data to a body, with memory from the pool if the body is not small.
fn keep(
    pool: &'static Semaphore,
    bytes: &mut Vec<u8>,
    memory: &mut Option<SemaphorePermit<'static>>,
    data: &[u8],
    max: usize,
) -> Result<(), Unread> {
    let needed = bytes.len() + data.len();
    if needed > max {
        return Err(Unread::TooLarge);
    }
    if needed > bytes.capacity() {
        // The capacity is chosen here, not by the vector, so that it can be counted.
        let capacity = needed.next_power_of_two().clamp(4 << 10, max.max(4 << 10));
        let held = memory.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = (capacity.saturating_sub(SMALL_BYTES).div_ceil(1 << 10)).saturating_sub(held);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let granted = pool.try_acquire_many(more).map_err(|_| Unread::Full)?;
        match memory {
            Some(memory) => memory.merge(granted),
            None => *memory = Some(granted),
        }
        bytes.reserve_exact(capacity - bytes.len());
    }
    bytes.extend_from_slice(data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};

    use super::*;

    /// A pool of its own for a test, with room for `kib`.
    fn pool(kib: usize) -> &'static Semaphore {
        Box::leak(Box::new(Semaphore::new(kib)))
    }

    fn pieces(count: usize, bytes: usize) -> impl futures_util::Stream<Item = Result<Vec<u8>, Infallible>> {
        stream::iter((0..count).map(move |_| Ok(vec![b'x'; bytes])))
    }

    #[tokio::test]
    async fn a_body_arrives_whole_and_gives_its_memory_back() {
        let pool = pool(2 << 10);
        let received = receive_from(pool, Body::from_stream(pieces(1_000, 1_000)), 1 << 20).await.unwrap();
        assert_eq!(received.bytes().len(), 1_000_000);
        assert!(pool.available_permits() < 2 << 10, "a large body takes from the pool");
        drop(received);
        assert_eq!(pool.available_permits(), 2 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_never_end_take_no_more_than_the_pool_and_leave_room_for_small_ones() {
        let pool = pool(4 << 10);
        let endless = || Body::from_stream(pieces(2_000, 1_000).chain(stream::pending()));
        let flood: Vec<_> = (0..20).map(|_| tokio::spawn(receive_from(pool, endless(), 2 << 20))).collect();
        tokio::time::sleep(TIME_MAX / 2).await;
        assert!(pool.available_permits() < 1 << 10, "{} KiB are left", pool.available_permits());
        let small = receive_from(pool, Body::from_stream(pieces(30, 1_000)), 2 << 20).await.unwrap();
        assert_eq!(small.bytes().len(), 30_000);
        let large = receive_from(pool, Body::from_stream(pieces(2_000, 1_000)), 2 << 20).await;
        assert_eq!(large.err(), Some(Unread::Full));
        let mut refused = 0;
        for flood in flood {
            match flood.await.unwrap().err() {
                Some(Unread::Full) => refused += 1,
                why => assert_eq!(why, Some(Unread::Late)),
            }
        }
        assert!((17..20).contains(&refused), "{refused} were refused");
        assert_eq!(pool.available_permits(), 4 << 10, "what was refused or late holds nothing");
    }

    #[tokio::test]
    async fn what_is_too_large_is_read_to_its_end() {
        let pool = pool(4 << 10);
        let (seen, count) = std::sync::mpsc::channel();
        let body = pieces(3_000, 1_000).inspect(move |_| seen.send(()).unwrap());
        assert_eq!(receive_from(pool, Body::from_stream(body), 1 << 20).await.err(), Some(Unread::TooLarge));
        assert_eq!(count.try_iter().count(), 3_000);
    }
}
