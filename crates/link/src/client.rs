//! The client's side: a store that is elsewhere.
//!
//! [`Link`] keeps one connection to one of several servers, and makes it again when it is lost. A call that was sent and not answered by
//! then is [`Error::Unavailable`]: its caller repeats the very same call, which for an append is the same append. A call that was
//! not sent yet waits for the next connection.

mod attempts;
mod connection;
mod enrol;
mod journal;
mod peer;
mod shared;

use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lastword_store::hints::{Bell, Hints};
use lastword_store::{Attempts, Error, Result};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::carried::In;
use crate::frame::MESSAGE_MAX;
use crate::outbox::{Lane, Outbox, outbox};
use crate::wire::{Request, Verb};
use crate::{UNDER_WAY_MAX, URGENT_UNDER_WAY_MAX};

pub use enrol::{Unwelcome, enrol, prove};
pub use peer::Peer;
pub use shared::Remote;
use shared::{Call, Outgoing, Shared, State};

/// No server could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no server can be used: {0}")]
pub struct NoServer(String);

/// A store at the other end of a connection.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    outbox: Outbox<Outgoing>,
    /// Requests under way, by lane. The server cuts off a client that has more.
    ordinary: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
    answer_max: Duration,
    shared: Arc<Shared>,
    driver: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    /// Connects to one of the servers. Fails if each was tried and none could be used.
    pub async fn connect(remote: Remote) -> std::result::Result<Link, NoServer> {
        let link = Link::open(remote).map_err(|error| NoServer(error.to_string()))?;
        let mut state = link.0.shared.state.subscribe();
        // The driver lives as long as the link.
        let known = state.wait_for(|state| !matches!(state, State::New)).await.map(|state| state.clone());
        match known {
            Ok(State::Down(why)) => Err(NoServer(why)),
            _ => Ok(link),
        }
    }

    /// Returns a link that connects in the background. Calls wait for that as long as for an answer.
    pub fn open(remote: Remote) -> io::Result<Link> {
        let tls = TlsConnector::from(Arc::new(remote.trust.config()?));
        let shared = Arc::new(Shared {
            bell: Bell::default(),
            state: watch::Sender::new(State::New),
            attempts: OnceLock::new(),
            journal: Mutex::default(),
        });
        let (outbox, lanes) = outbox();
        let answer_max = remote.timing.answer;
        let driver = tokio::spawn(connection::drive(remote, tls, outbox.clone(), lanes, Arc::clone(&shared)));
        Ok(Link(Arc::new(Inner {
            outbox,
            ordinary: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
            urgent: Arc::new(Semaphore::new(URGENT_UNDER_WAY_MAX)),
            answer_max,
            shared,
            driver: driver.abort_handle(),
        })))
    }

    /// Has servers' questions about attempts answered from here on. Before that they are told that this worker is starting. A second call
    /// changes nothing.
    pub fn answer_for(&self, attempts: impl Attempts) {
        let _ = self.0.shared.attempts.set(Arc::new(attempts));
    }

    /// Calls a verb.
    async fn call<V: Verb>(&self, verb: V) -> Result<V::Answer> {
        let answer = self.send(&verb.into()).await?;
        match serde_json::from_slice::<In<Result<V::Answer>>>(&answer) {
            Ok(In(answer)) => answer,
            Err(error) => Err(Error::Corrupt(format!("the server's answer does not read: {error}"))),
        }
    }

    /// Sends a request, and returns the answer as it came.
    async fn send(&self, request: &Request) -> Result<Vec<u8>> {
        let lane = if request.is_urgent() { Lane::Urgent } else { Lane::Ordinary };
        let body = serde_json::to_vec(request)
            .map_err(|error| Error::Refused(format!("the request cannot be written: {error}")))?;
        if body.len() > MESSAGE_MAX {
            let words = format!("the request has {} bytes, and {MESSAGE_MAX} fit into a message", body.len());
            return Err(Error::Refused(words));
        }
        let answer_max = self.0.answer_max;
        timeout(answer_max, self.exchange(lane, body)).await.unwrap_or_else(|_| {
            let why = match &*self.0.shared.state.borrow() {
                State::Down(why) => format!(": {why}"),
                State::New | State::Connected => String::new(),
            };
            Err(Error::Unavailable(format!("no answer within {} s{why}", answer_max.as_secs())))
        })
    }

    /// Sends a request, and waits for its answer.
    async fn exchange(&self, lane: Lane, body: Vec<u8>) -> Result<Vec<u8>> {
        let lost = |_| Error::Unavailable("the connection to the server was lost".to_owned());
        let places = match lane {
            Lane::Urgent => &self.0.urgent,
            Lane::Ordinary => &self.0.ordinary,
        };
        let place = Arc::clone(places).acquire_owned().await;
        let place = place.map_err(|_| Error::Unavailable("the link is closed".to_owned()))?;
        let (answer, answered) = oneshot::channel();
        self.0.outbox.put(lane, Outgoing::Call(Call { lane, body, answer, place }));
        answered.await.map_err(lost)
    }

    fn bell(&self) -> Hints {
        self.0.shared.bell.hints()
    }
}
