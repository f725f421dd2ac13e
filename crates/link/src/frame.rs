//! Frames: how messages are cut into pieces on a connection, and how they are put together again.
//!
//! A frame is a header of 14 bytes (length of its body, kind, whether it is the last of its message, stream) and at most 64 KiB.
//! A long message is several frames, and urgent ones are written in between. Lengths are checked before anything is allocated.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes of a message, at most. The API takes a request of one MiB; as JSON in JSON it is at most four times as long.
pub(crate) const MESSAGE_MAX: usize = 8 << 20;

/// Bytes of the first message of a connection, at most: its author is not known yet.
pub(crate) const HELLO_MAX: usize = 4 << 10;

/// Bytes of the body of a frame, at most.
const FRAME_MAX: usize = 64 << 10;

const HEADER: usize = 14;

/// Bytes that are written at once: one frame of full length, or many that are shorter. An urgent message waits for so many at most.
pub(crate) const WRITE_MAX: usize = HEADER + FRAME_MAX;

/// Messages that can be incomplete at once: an ordinary one, and an urgent one that came in between.
const INCOMPLETE_MAX: usize = 2;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A client says which principal it is.
    Hello = 1,
    /// The server lets it in.
    Welcome = 2,
    /// The server does not, and says why. The connection ends.
    Refusal = 3,
    /// A request.
    Request = 4,
    /// A renewal, which overtakes requests.
    Urgent = 5,
    /// The answer to either, on the same stream.
    Answer = 6,
    /// Something is worth looking at.
    Hint = 7,
    /// The sender is alive.
    Beat = 8,
    /// A client asks for a token, in place of a hello.
    Enrol = 9,
    /// The server gives it one. The connection ends.
    Enrolled = 10,
    /// A server asks a worker about an attempt that it ran.
    Ask = 11,
    /// The answer to that, on the same stream.
    Told = 12,
}

impl Kind {
    fn parse(byte: u8) -> io::Result<Kind> {
        use Kind::*;
        let kinds =
            [Hello, Welcome, Refusal, Request, Urgent, Answer, Hint, Beat, Enrol, Enrolled, Ask, Told];
        let found = kinds.into_iter().find(|kind| *kind as u8 == byte);
        found.ok_or_else(|| broken(format!("a frame of the unknown kind {byte}")))
    }
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// Which request it is, or answers. Zero if it is neither.
    pub(crate) stream: u64,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Returns a message that belongs to no request.
    pub(crate) fn bare(kind: Kind) -> Message {
        Message { kind, stream: 0, body: Vec::new() }
    }

    /// Appends the frame that begins at `from` to what is to be written, and returns where the next one begins; `None` after the last.
    pub(crate) fn frame(&self, from: usize, to: &mut Vec<u8>) -> Option<usize> {
        let end = self.body.len().min(from + FRAME_MAX);
        let is_last = end == self.body.len();
        to.extend(((end - from) as u32).to_be_bytes());
        to.extend([self.kind as u8, is_last.into()]);
        to.extend(self.stream.to_be_bytes());
        to.extend(&self.body[from..end]);
        (!is_last).then_some(end)
    }

    /// Returns the length of the frame that begins at `from`.
    pub(crate) fn frame_len(&self, from: usize) -> usize {
        HEADER + (self.body.len() - from).min(FRAME_MAX)
    }

    /// Writes all of it.
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (mut bytes, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = self.frame(from, &mut bytes);
            to.write_all(&bytes).await?;
            to.flush().await?;
            bytes.clear();
        }
        Ok(())
    }
}

/// The messages that come in.
pub(crate) struct Inbox<R> {
    io: R,
    incomplete: Vec<Message>,
    message_max: usize,
    /// How long a frame may take. A peer that has nothing to say sends beats.
    silence: Duration,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    /// Reads messages of at most `message_max` bytes.
    pub(crate) fn new(io: R, message_max: usize, silence: Duration) -> Inbox<R> {
        Inbox { io, incomplete: Vec::new(), message_max, silence }
    }

    /// Allows messages of full length from here on: their author is known.
    pub(crate) fn trust(&mut self) {
        self.message_max = MESSAGE_MAX;
    }

    /// Returns the next whole message.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        loop {
            let silence = self.silence;
            let Ok(frame) = timeout(silence, self.frame()).await else {
                let words = format!("nothing was heard for {} ms", silence.as_millis());
                return Err(io::Error::new(io::ErrorKind::TimedOut, words));
            };
            if let Some(message) = frame? {
                return Ok(message);
            }
        }
    }

    /// Reads one frame, and returns the message that it completes.
    async fn frame(&mut self) -> io::Result<Option<Message>> {
        let mut header = [0; HEADER];
        self.io.read_exact(&mut header).await?;
        let [l0, l1, l2, l3, kind, last, stream @ ..] = header;
        let (length, stream) = (u32::from_be_bytes([l0, l1, l2, l3]) as usize, u64::from_be_bytes(stream));
        let kind = Kind::parse(kind)?;
        if length > FRAME_MAX {
            return Err(broken(format!("a frame of {length} bytes; {FRAME_MAX} are allowed")));
        }
        let begun = self.incomplete.iter().position(|one| (one.kind, one.stream) == (kind, stream));
        let mut message = match begun {
            Some(place) => self.incomplete.swap_remove(place),
            None => Message { kind, stream, body: Vec::new() },
        };
        let begin = message.body.len();
        if begin + length > self.message_max {
            return Err(broken(format!("a message of more than {} bytes", self.message_max)));
        }
        message.body.resize(begin + length, 0);
        self.io.read_exact(&mut message.body[begin..]).await?;
        if last != 0 {
            return Ok(Some(message));
        }
        if self.incomplete.len() == INCOMPLETE_MAX {
            return Err(broken(format!("more than {INCOMPLETE_MAX} incomplete messages")));
        }
        self.incomplete.push(message);
        Ok(None)
    }
}

/// Returns the error for a peer that breaks the protocol.
pub(crate) fn broken(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn message(kind: Kind, stream: u64, length: usize) -> Message {
        Message { kind, stream, body: (0..length).map(|n| n as u8).collect() }
    }

    async fn read(bytes: &[u8], max: usize) -> io::Result<Message> {
        Inbox::new(bytes, max, LONG).next().await
    }

    #[tokio::test]
    async fn messages_of_any_length_come_back() {
        for length in [0, 1, FRAME_MAX - 1, FRAME_MAX, FRAME_MAX + 1, 3 * FRAME_MAX, MESSAGE_MAX] {
            let mut bytes = Vec::new();
            message(Kind::Request, 7, length).write(&mut bytes).await.unwrap();
            let back = read(&bytes, MESSAGE_MAX).await.unwrap();
            assert_eq!((back.kind, back.stream, back.body.len()), (Kind::Request, 7, length));
            assert_eq!(back.body, message(Kind::Request, 7, length).body);
        }
    }

    #[tokio::test]
    async fn an_urgent_message_comes_between_two_pieces() {
        let (long, urgent) =
            (message(Kind::Request, 1, 2 * FRAME_MAX), message(Kind::Urgent, 2, FRAME_MAX + 9));
        let mut bytes = Vec::new();
        let next = long.frame(0, &mut bytes).expect("it is not done");
        urgent.write(&mut bytes).await.unwrap();
        assert_eq!(long.frame(next, &mut bytes), None);
        let mut inbox = Inbox::new(&bytes[..], MESSAGE_MAX, LONG);
        let (first, second) = (inbox.next().await.unwrap(), inbox.next().await.unwrap());
        assert_eq!((first.stream, first.body), (2, urgent.body));
        assert_eq!((second.stream, second.body), (1, long.body));
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused_before_it_is_read() {
        // Only the header is there: an attempt to read on would say that the connection ended.
        let header = |length: u32, last: u8| {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend([Kind::Request as u8, last, 0, 0, 0, 0, 0, 0, 0, 1]);
            bytes
        };
        for (bytes, max, words) in [
            (header(u32::MAX, 1), MESSAGE_MAX, "a frame of 4294967295 bytes"),
            (header(HELLO_MAX as u32 + 1, 1), HELLO_MAX, "a message of more than 4096 bytes"),
        ] {
            let error = read(&bytes, max).await.unwrap_err();
            assert!(error.to_string().starts_with(words), "{error}");
        }
        let mut endless = Vec::new();
        for _ in 0..=MESSAGE_MAX / FRAME_MAX {
            endless.extend(header(FRAME_MAX as u32, 0));
            endless.extend([0; FRAME_MAX]);
        }
        let error = read(&endless, MESSAGE_MAX).await.unwrap_err();
        assert!(error.to_string().starts_with("a message of more than"), "{error}");
    }

    #[tokio::test]
    async fn many_incomplete_messages_are_refused() {
        let mut bytes = Vec::new();
        for stream in 0..3 {
            message(Kind::Request, stream, 2 * FRAME_MAX).frame(0, &mut bytes);
        }
        let error = read(&bytes, MESSAGE_MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "more than 2 incomplete messages");
    }

    #[tokio::test]
    async fn an_unknown_kind_is_refused() {
        let mut bytes = vec![0, 0, 0, 0, 99, 1];
        bytes.extend([0; 8]);
        assert_eq!(
            read(&bytes, MESSAGE_MAX).await.unwrap_err().to_string(),
            "a frame of the unknown kind 99"
        );
    }
}
