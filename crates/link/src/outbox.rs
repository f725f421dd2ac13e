//! The outbox of a connection: two lanes, of which the urgent one is written first, also in the middle of a long message.

use std::io;

use tokio::io::AsyncWrite;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Timing;
use crate::frame::{Kind, Message};

/// A message that counts as under way until it is written.
pub(crate) type Counted = (Message, Option<OwnedSemaphorePermit>);

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::duplex;

    use super::*;
    use crate::frame::{Inbox, MESSAGE_MAX};

    /// The reader takes a few bytes at a time, so that most of the long messages is not written when the urgent one comes.
    #[tokio::test]
    async fn an_urgent_message_overtakes_what_is_being_written() {
        let (near, far) = duplex(1_000);
        let (outbox, mut lanes) = outbox::<Message>();
        for stream in 1..4 {
            outbox
                .put(Lane::Ordinary, Message { kind: Kind::Request, stream, body: vec![0; MESSAGE_MAX / 2] });
        }
        let timing = Timing { beat: Duration::from_secs(60), ..Timing::default() };
        let writing = tokio::spawn(async move { lanes.write(near, &timing, Some).await });
        let mut inbox = Inbox::new(far, MESSAGE_MAX, Duration::from_secs(60));
        assert_eq!(inbox.next().await.unwrap().kind, Kind::Beat);
        outbox.put(Lane::Urgent, Message::bare(Kind::Urgent));
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(inbox.next().await.unwrap().stream);
        }
        assert_eq!(order, [0, 1, 2, 3]);
        drop(outbox);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_given_up() {
        let (near, _far) = duplex(1_000);
        let (outbox, mut lanes) = outbox::<Message>();
        outbox.put(Lane::Ordinary, Message { kind: Kind::Answer, stream: 1, body: vec![0; 9_999] });
        let timing = Timing { write: Duration::from_millis(50), ..Timing::default() };
        let written = timeout(Duration::from_secs(30), lanes.write(near, &timing, Some)).await;
        let error = written.expect("it ends").unwrap_err();
        assert_eq!(error.to_string(), "the peer does not read what it asked for");
    }
}
