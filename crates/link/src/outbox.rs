//! The outbox of a connection: two lanes, of which the urgent one is written first, also in the middle of a long message.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::Timing;
use crate::frame::{Kind, Message, WRITE_MAX};

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

/// What is written at once.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// A message of the ordinary lane, and what of it is written.
    begun: Option<(Message, usize)>,
}

impl Parcel {
    /// Adds a whole message, however long it is.
    fn add(&mut self, message: &Message) {
        let mut next = Some(0);
        while let Some(from) = next {
            next = message.frame(from, &mut self.bytes);
        }
    }

    /// Adds the next frame of the message that is begun. Reports whether there was one, and room for it.
    fn go_on(&mut self) -> bool {
        let Some((message, from)) = self.begun.take() else { return false };
        let has_room = self.bytes.len() + message.frame_len(from) <= WRITE_MAX;
        let next = if has_room { message.frame(from, &mut self.bytes) } else { Some(from) };
        self.begun = next.map(|next| (message, next));
        has_room
    }
}

impl<T> Lanes<T> {
    /// Writes until the connection fails or the outbox is dropped, and beats in between. What waits is written together, as far as it is no
    /// longer than one frame. `open` makes a message of what was put in, at the moment it is written, or drops it.
    pub(crate) async fn write<W: AsyncWrite + Unpin>(
        &mut self,
        mut to: W,
        timing: &Timing,
        mut open: impl FnMut(T) -> Option<Message>,
    ) -> io::Result<()> {
        let mut beats = interval(timing.beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut parcel = Parcel::default();
        loop {
            tokio::select! {
                biased;
                urgent = self.urgent.recv() => {
                    let Some(urgent) = urgent else { return Ok(()) };
                    open(urgent).inspect(|message| parcel.add(message));
                }
                _ = beats.tick() => parcel.add(&Message::bare(Kind::Beat)),
                ordinary = self.ordinary.recv(), if parcel.begun.is_none() => {
                    let Some(ordinary) = ordinary else { return Ok(()) };
                    parcel.begun = open(ordinary).map(|message| (message, 0));
                }
                () = std::future::ready(()), if parcel.begun.is_some() => {}
            }
            // Tasks that were woken together, such as the callers of one batch of the store, put their messages in first.
            tokio::task::yield_now().await;
            self.fill(&mut parcel, &mut open);
            if !parcel.bytes.is_empty() {
                let writing = async {
                    to.write_all(&parcel.bytes).await?;
                    to.flush().await
                };
                in_time(timing, writing).await?;
                parcel.bytes.clear();
            }
        }
    }

    /// Adds what waits: all that is urgent, then the rest as far as there is room.
    fn fill(&mut self, parcel: &mut Parcel, open: &mut impl FnMut(T) -> Option<Message>) {
        while let Ok(urgent) = self.urgent.try_recv() {
            open(urgent).inspect(|message| parcel.add(message));
        }
        loop {
            while parcel.go_on() {}
            if parcel.begun.is_some() {
                return;
            }
            let Ok(ordinary) = self.ordinary.try_recv() else { return };
            parcel.begun = open(ordinary).map(|message| (message, 0));
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
