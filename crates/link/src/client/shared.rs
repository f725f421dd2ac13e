//! What the calls of a link and its connection share.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lastword_store::hints::Bell;
use lastword_store::{Attempts, Said};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::frame::Message;
use crate::outbox::Lane;
use crate::{Timing, Trust};

/// Where a link goes.
#[derive(Clone)]
pub struct Remote {
    /// Servers of one journal, each as `host:port`. Any of them will do.
    pub servers: Vec<String>,
    /// How they are known.
    pub trust: Trust,
    /// Proves which principal this is.
    pub token: String,
    /// What this worker says of itself.
    pub said: Said,
    /// How long the link waits for them.
    pub timing: Timing,
}

/// What the calls and the connection both know.
pub(super) struct Shared {
    pub(super) bell: Bell,
    pub(super) state: watch::Sender<State>,
    /// Answers what servers ask.
    pub(super) attempts: OnceLock<Arc<dyn Attempts>>,
    /// The journal that the first server named.
    pub(super) journal: Mutex<Option<String>>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// No server was tried yet.
    New,
    Connected,
    /// Every server was tried, with what is wrong with each.
    Down(String),
}

/// What a client sends.
pub(super) enum Outgoing {
    Call(Call),
    /// An answer to a server's question, on the connection over which that came, with the places that it takes until it is written.
    Told {
        connection: u64,
        message: Message,
        _places: [OwnedSemaphorePermit; 2],
    },
}

/// A request on its way, and where its answer goes.
pub(super) struct Call {
    pub(super) lane: Lane,
    pub(super) body: Vec<u8>,
    pub(super) answer: oneshot::Sender<Vec<u8>>,
    pub(super) place: OwnedSemaphorePermit,
}

impl Shared {
    /// Refuses a server of another journal. There every job of this client would be unknown, and it would let go of all of them.
    pub(super) fn check_journal(&self, named: &str) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match &*journal {
            Some(known) if known != named => Err(io::Error::other(format!(
                "it serves the journal {}, and this link is for {}",
                named.escape_default(),
                known.escape_default()
            ))),
            _ => {
                *journal = Some(named.to_owned());
                Ok(())
            }
        }
    }
}
