//! The outbox of one keeper: commands in order, each with the place its answer goes to. It outlives a broken connection.

use std::collections::VecDeque;
use std::sync::Mutex;

use lastword_proc::{Error, Line};
use tokio::sync::{Notify, oneshot};

use crate::lock::lock;

/// An answer of a keeper.
pub(super) type Answer = Result<Line, Error>;

/// Commands that wait for a connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pending: Mutex<VecDeque<Pending>>,
    /// A command was added.
    pub(super) added: Notify,
}

/// A command that was not sent yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) bytes: Vec<u8>,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Outbox {
    /// Adds an encoded command; the receiver gets the keeper's answer.
    pub(super) fn add(&self, bytes: Vec<u8>) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        lock(&self.pending).push_back(Pending { bytes, answer });
        self.added.notify_one();
        answered
    }

    /// Takes the next command. A command whose caller gave up is dropped: the caller asks again.
    pub(super) fn next(&self) -> Option<Pending> {
        let mut pending = lock(&self.pending);
        while let Some(next) = pending.pop_front() {
            if !next.answer.is_closed() {
                return Some(next);
            }
        }
        None
    }
}
