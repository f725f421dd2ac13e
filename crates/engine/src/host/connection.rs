//! One open connection to a keeper: commands go out in order, answers come back in order, with events in between.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lastword_proc::{KeeperCommand, parse_answer};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::outbox::{Answer, Outbox};

/// How long a keeper may take to answer. It is one thread that never blocks; a slower one is stopped or dead.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The connection.
pub(super) struct KeeperConnection {
    socket: Arc<UnixStream>,
    outbox: Arc<Outbox>,
    /// Received and not parsed yet.
    unread: Vec<u8>,
    /// Taken from the outbox and not sent yet.
    unsent: Vec<u8>,
    /// Callers that wait for an answer, the next one first.
    awaiting: VecDeque<oneshot::Sender<Answer>>,
}

/// A connection over which a keeper sends events.
pub(super) struct Watched {
    pub(super) connection: KeeperConnection,
    /// The newest input that was written to the tree to its last byte.
    pub(super) written: u64,
    /// The newest input that the keeper has taken.
    pub(super) taken: u64,
}

impl KeeperConnection {
    /// Asks the keeper to send events, and returns the connection once it agrees.
    pub(super) async fn watched(socket: UnixStream, unread: Vec<u8>, outbox: Arc<Outbox>) -> Option<Watched> {
        let socket = Arc::new(socket);
        // Epoch 0 claims nothing: every keeper may be watched.
        let (agreed, mut status) = oneshot::channel();
        let (unsent, awaiting) = (KeeperCommand::Watch.encode(0), VecDeque::from([agreed]));
        let mut connection = KeeperConnection { socket, outbox, unread, unsent, awaiting };
        let status = async {
            loop {
                tokio::select! {
                    biased;
                    answered = &mut status => return answered.ok()?.ok(),
                    // No event comes before the answer.
                    event = connection.next() => drop(event?),
                }
            }
        };
        let status = timeout(ANSWER_MAX, status).await.ok()??;
        let number = |name| status.get(name).unwrap_or(0);
        Some(Watched { written: number("told"), taken: number("taken"), connection })
    }

    /// Returns the socket, to be polled for a hang-up.
    pub(super) fn socket(&self) -> &Arc<UnixStream> {
        &self.socket
    }

    /// Returns the next event; `None` when the keeper is gone.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            while let Some(line) = self.line() {
                match parse_answer(&line) {
                    None => return Some(line),
                    Some(answer) => {
                        // The caller may have given up.
                        let _ = self.awaiting.pop_front().map(|caller| caller.send(answer));
                    }
                }
            }
            self.exchange().await.ok()?;
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        if self.unread.is_empty() {
            self.unread.shrink_to_fit();
        }
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Sends and receives once, as the socket allows.
    async fn exchange(&mut self) -> io::Result<()> {
        while let Some(command) = self.outbox.next() {
            self.unsent.extend_from_slice(&command.bytes);
            self.awaiting.push_back(command.answer);
        }
        let interest = match self.unsent.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        tokio::select! {
            biased;
            ready = self.socket.ready(interest) => {
                let ready = ready?;
                if ready.is_writable() {
                    self.send()?;
                }
                if ready.is_readable() {
                    self.receive()?;
                }
            }
            () = self.outbox.added.notified() => {}
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        match self.socket.try_write(&self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                if self.unsent.is_empty() {
                    self.unsent.shrink_to_fit();
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Receives into a buffer that exists only while there is something: most connections are silent.
    fn receive(&mut self) -> io::Result<()> {
        let mut chunk = [0; 512];
        match self.socket.try_read(&mut chunk) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => {
                self.unread.extend_from_slice(&chunk[..received]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}
