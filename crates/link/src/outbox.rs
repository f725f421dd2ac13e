//! The outbox of a connection: two lanes, of which the urgent one is written first, also in the middle of a long message.

use std::io;

use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Timing;
use crate::frame::{Kind, Message};

/// Where messages are put. `T` is a message and what belongs to it.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    urgent: mpsc::UnboundedSender<T>,
    ordinary: mpsc::UnboundedSender<T>,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Outbox<T> {
        Outbox { urgent: self.urgent.clone(), ordinary: self.ordinary.clone() }
    }
}

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Urgent,
    Ordinary,
}

/// The other side of an outbox.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    urgent: mpsc::UnboundedReceiver<T>,
    ordinary: mpsc::UnboundedReceiver<T>,
}

/// Returns an empty outbox. It is bounded by the requests that may be under way, not by itself.
pub(crate) fn outbox<T>() -> (Outbox<T>, Lanes<T>) {
    let (urgent, urgent_lane) = mpsc::unbounded_channel();
    let (ordinary, ordinary_lane) = mpsc::unbounded_channel();
    (Outbox { urgent, ordinary }, Lanes { urgent: urgent_lane, ordinary: ordinary_lane })
}

impl<T> Outbox<T> {
    /// Puts something into a lane. It is lost if the connection is over.
    pub(crate) fn put(&self, lane: Lane, what: T) {
        let sender = match lane {
            Lane::Urgent => &self.urgent,
            Lane::Ordinary => &self.ordinary,
        };
        let _ = sender.send(what);
    }
}

impl<T> Lanes<T> {
    /// Writes until the connection fails or the outbox is dropped, and beats in between. `open` makes a message of what was put in, at
    /// the moment it is written, or drops it.
    pub(crate) async fn write<W: AsyncWrite + Unpin>(
        &mut self,
        mut to: W,
        timing: &Timing,
        mut open: impl FnMut(T) -> Option<Message>,
    ) -> io::Result<()> {
        let mut beats = interval(timing.beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A message of the ordinary lane, and what of it is written.
        let mut begun: Option<(Message, usize)> = None;
        loop {
            tokio::select! {
                biased;
                urgent = self.urgent.recv() => {
                    let Some(urgent) = urgent else { return Ok(()) };
                    if let Some(message) = open(urgent) {
                        in_time(timing, message.write(&mut to)).await?;
                    }
                }
                _ = beats.tick() => in_time(timing, Message::bare(Kind::Beat).write(&mut to)).await?,
                ordinary = self.ordinary.recv(), if begun.is_none() => {
                    let Some(ordinary) = ordinary else { return Ok(()) };
                    begun = open(ordinary).map(|message| (message, 0));
                }
                () = std::future::ready(()), if begun.is_some() => {
                    if let Some((message, from)) = begun.take() {
                        let next = in_time(timing, message.write_frame(from, &mut to)).await?;
                        begun = next.map(|next| (message, next));
                    }
                }
            }
        }
    }
}

/// Gives up on a peer that does not read.
async fn in_time<T>(timing: &Timing, writing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let slow = || io::Error::new(io::ErrorKind::TimedOut, "the peer does not read what it asked for");
    timeout(timing.write, writing).await.map_err(|_| slow())?
}
