//! One open connection to a keeper: what is to be said goes out in order, answers come back in order, events in between.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use lastword_proc::{Error, KeeperCommand, Line, parse_answer};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::speak::{ANSWER_MAX, Said};

/// The connection.
pub(super) struct Wire {
    socket: Arc<UnixStream>,
    said: Arc<Said>,
    /// Received and not read yet.
    unread: Vec<u8>,
    /// Said and not sent yet.
    unsent: Vec<u8>,
    /// Who waits for an answer, the next one first.
    asked: VecDeque<oneshot::Sender<Result<Line, Error>>>,
}

/// A connection to a keeper that is watched.
pub(super) struct Watched {
    pub(super) wire: Wire,
    /// The newest input that was written to its last byte.
    pub(super) told: u64,
    /// The newest input that it has taken.
    pub(super) taken: u64,
}

impl Wire {
    /// Returns the connection once its keeper has agreed to be watched.
    pub(super) async fn watched(socket: UnixStream, unread: Vec<u8>, said: Arc<Said>) -> Option<Watched> {
        let socket = Arc::new(socket);
        // Whoever only looks has no claim: zero is older than any.
        let (asked, mut status) = oneshot::channel();
        let (unsent, asked) = (KeeperCommand::Watch.encode(0), VecDeque::from([asked]));
        let mut wire = Wire { socket, said, unread, unsent, asked };
        let status = async {
            loop {
                tokio::select! {
                    biased;
                    answered = &mut status => return answered.ok()?.ok(),
                    // There are no events before it has agreed.
                    event = wire.next() => drop(event?),
                }
            }
        };
        let status = timeout(ANSWER_MAX, status).await.ok()??;
        let number = |name| status.get(name).unwrap_or(0);
        Some(Watched { told: number("told"), taken: number("taken"), wire })
    }

    /// Returns the socket, for whoever wants to know whether its other end is there.
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
                        // Whoever asked may have given up.
                        let _ = self.asked.pop_front().map(|asked| asked.send(answer));
                    }
                }
            }
            self.turn().await.ok()?;
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

    /// Sends what there is to send, and receives what there is to receive.
    async fn turn(&mut self) -> io::Result<()> {
        while let Some(ask) = self.said.next() {
            self.unsent.extend_from_slice(&ask.bytes);
            self.asked.push_back(ask.answer);
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
            () = self.said.came.notified() => {}
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

    /// Receives without keeping room for it while there is nothing.
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
