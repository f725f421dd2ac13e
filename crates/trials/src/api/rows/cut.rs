//! Connections to the daemon that break after some bytes, wherever that is.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use lastword_client::{Connect, Io, Pending, Unix};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::random::Random;

/// Bytes after which a connection breaks, at most: some thousand rows.
const BYTES_MAX: u64 = 3_000_000;

/// A daemon whose connections break.
pub(super) struct Cut {
    daemon: Unix,
    random: Mutex<Random>,
    cuts: Arc<AtomicU64>,
}

impl Cut {
    pub(super) fn new(socket: PathBuf, seed: u64, cuts: Arc<AtomicU64>) -> Cut {
        Cut { daemon: Unix(socket), random: Mutex::new(Random::new(seed)), cuts }
    }

    fn cut(&self, io: Box<dyn Io>) -> Box<dyn Io> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        // Some break early, in the snapshot; most live for a while.
        let most = if random.chance(30) { 50_000 } else { BYTES_MAX };
        Box::new(Breaking { io, left: 1 + random.below(most), cuts: Arc::clone(&self.cuts) })
    }
}

impl Connect for Cut {
    fn connect(&self, again: bool) -> Pending<'_, Box<dyn Io>> {
        Box::pin(async move { Ok(self.cut(self.daemon.connect(again).await?)) })
    }

    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>> {
        Box::pin(async move { Ok(self.daemon.connect_if_listening().await?.map(|io| self.cut(io))) })
    }
}

/// A connection that breaks once `left` bytes were read.
struct Breaking {
    io: Box<dyn Io>,
    left: u64,
    cuts: Arc<AtomicU64>,
}

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            self.cuts.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let mut part = to.take(most);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut part);
        let filled = part.filled().len();
        if read.is_ready() {
            // SAFETY: `part` is the beginning of what `to` has free, and its reader has filled that much.
            unsafe { to.assume_init(filled) };
            to.advance(filled);
            self.left -= filled as u64;
        }
        read
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
