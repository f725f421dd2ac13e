//! The gate: which principal a token proves, and how a worker gets its token.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};
use lastword_store::hints::Hints;
use lastword_store::{
    EnrolledWorker, Enrolling, Enrolments, Journal, NotEnrolled, Result, Said, Token, TokenHash,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long the workers that were read stand, if something was committed since. A revoked token is good for this much longer, and one more
/// check of its connection.
const KNOWN_FOR: Duration = Duration::from_secs(2);

/// How long they stand if nothing is known to have been committed: the hint at a revocation may get lost.
const KNOWN_FOR_MAX: Duration = Duration::from_secs(30);

/// The author of a connection's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Another server of the fleet.
    Server,
    /// A worker.
    Worker {
        /// The only owner that it may be.
        owner: OwnerId,
        /// What it has, whatever it says: labels belong to its enrolment.
        labels: WorkerLabels,
    },
}

/// Returns the principal that a token proves.
pub trait Gate: Send + Sync + 'static {
    /// Returns the principal; `None` if the token is not known. Asked at the beginning of a connection, and again and again while it lasts.
    fn principal(&self, token: &str) -> impl Future<Output = Result<Option<Principal>>> + Send;

    /// Exchanges a one-time token for the name and the token of a worker.
    fn enrol(
        &self,
        _one_time: &str,
    ) -> impl Future<Output = Result<std::result::Result<(OwnerId, Token), NotEnrolled>>> + Send {
        async { Ok(Err(NotEnrolled::Unknown)) }
    }

    /// Notes what a worker says of itself.
    fn describe(&self, _worker: &OwnerId, _said: Said) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// A gate that knows its tokens without asking.
impl<F: Fn(&str) -> Option<Principal> + Send + Sync + 'static> Gate for F {
    async fn principal(&self, token: &str) -> Result<Option<Principal>> {
        Ok(self(token))
    }
}

/// Lets in the workers that are enrolled in a store. All connections of a server share one read of them, every two seconds at most.
#[derive(Debug)]
pub struct EnrolledOnly<S> {
    store: S,
    clock: fn() -> Timestamp,
    /// The server that it is for, and the token that other servers have for it.
    server: Option<(OwnerId, TokenHash)>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    workers: HashMap<TokenHash, Principal>,
    read: Option<Instant>,
    /// Whether something was committed that was not read.
    is_old: bool,
    hints: Hints,
}

impl Known {
    /// Reports whether the workers are to be read again.
    fn is_due(&mut self) -> bool {
        self.is_old |= self.hints.has_any();
        let known_for = if self.is_old { KNOWN_FOR } else { KNOWN_FOR_MAX };
        self.read.is_none_or(|read| read.elapsed() >= known_for)
    }
}

impl<S: Enrolments + Journal> EnrolledOnly<S> {
    /// Returns the gate of a store. `clock` is the wall clock.
    pub fn new(store: S, clock: fn() -> Timestamp) -> EnrolledOnly<S> {
        let known = Known { workers: HashMap::new(), read: None, is_old: false, hints: store.hints() };
        EnrolledOnly { store, clock, server: None, known: Mutex::new(known) }
    }

    /// Lets in other servers with this token too, and notes that workers are connected to this server.
    pub fn of(self, server: OwnerId, token: TokenHash) -> EnrolledOnly<S> {
        EnrolledOnly { server: Some((server, token)), ..self }
    }
}

impl<S: Enrolments + Journal> Gate for EnrolledOnly<S> {
    async fn principal(&self, token: &str) -> Result<Option<Principal>> {
        let token = TokenHash::of(token);
        if self.server.as_ref().is_some_and(|(_, own)| *own == token) {
            return Ok(Some(Principal::Server));
        }
        // One reads, the others wait for it.
        let mut known = self.known.lock().await;
        if known.is_due() {
            // Before the read: what is committed during it may be missed by it.
            known.is_old = false;
            let workers = self.store.workers().await;
            known.read = Some(Instant::now());
            known.is_old |= workers.is_err();
            match workers {
                Ok(workers) => {
                    let in_force = workers.into_iter().filter(|worker| worker.revoked_at.is_none());
                    known.workers = in_force.map(|worker| (worker.token, principal(worker))).collect();
                }
                // A worker that was known may stay: without the store it can do nothing.
                Err(error) if !known.workers.contains_key(&token) => return Err(error),
                Err(_) => {}
            }
        }
        if let Some(known) = known.workers.get(&token) {
            return Ok(Some(known.clone()));
        }
        drop(known);
        // It may have been enrolled since.
        Ok(self.store.worker_of(token).await?.map(principal))
    }

    async fn enrol(&self, one_time: &str) -> Result<std::result::Result<(OwnerId, Token), NotEnrolled>> {
        let token = Token::make()?;
        let enrolling =
            Enrolling { one_time: TokenHash::of(one_time), token: token.hash(), now: (self.clock)() };
        Ok(self.store.enrol(enrolling).await?.map(|name| (name, token)))
    }

    async fn describe(&self, worker: &OwnerId, said: Said) -> Result<()> {
        let server = self.server.as_ref().map(|(server, _)| server.clone());
        self.store.describe(worker.clone(), said, server).await
    }
}

fn principal(worker: EnrolledWorker) -> Principal {
    let labels = worker.labels.with_worker(&worker.name);
    Principal::Worker { owner: worker.name, labels }
}
