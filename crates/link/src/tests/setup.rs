//! A server on a free port, its clients, and the jobs that they speak of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::event::{LaunchIntended, LimitChanged, Submitted};
use lastword_core::life::Place;
use lastword_core::limits::Limit;
use lastword_core::spec::Spec;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, AppendId, AttemptNo, Fact, Fence, Job, JobId, OwnerId, Timestamp};
use lastword_store::{Claim, Journal, Renew, Said, Source};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::stuck::Stuck;
use crate::frame::{Kind, Message};
use crate::wire::Hello;
use crate::{
    Bells, EnrolledOnly, Fingerprint, Gate, Hosts, Identity, Link, Options, Principal, Remote, Timing, Trust,
    serve,
};

/// The clock of every server.
pub(super) const NOW: Timestamp = Timestamp(1_794_700_800_000);

/// Longer than any test waits for something that must happen.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// The token of a server. That of a worker is its name.
pub(super) const SERVER: &str = "server";

pub(super) struct Served {
    pub(super) store: Stuck,
    pub(super) hosts: Hosts,
    pub(super) address: SocketAddr,
    pub(super) fingerprint: Fingerprint,
    timing: Timing,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(super) fn gate(token: &str) -> Option<Principal> {
    match token {
        SERVER => Some(Principal::Server),
        "ann" | "bob" => {
            Some(Principal::Worker { owner: OwnerId(token.into()), labels: WorkerLabels::from_key("gpu") })
        }
        _ => None,
    }
}

impl Served {
    pub(super) async fn start() -> Served {
        Served::with(Timing::default(), Stuck::new(1), "here").await
    }

    pub(super) async fn with(timing: Timing, store: Stuck, journal: &str) -> Served {
        Served::of(timing, store, journal, Identity::make().unwrap(), 8).await
    }

    pub(super) async fn of(
        timing: Timing,
        store: Stuck,
        journal: &str,
        identity: Identity,
        connections: usize,
    ) -> Served {
        Served::behind(timing, store, journal, identity, connections, gate).await
    }

    /// Serves a store to the workers that are enrolled in it.
    pub(super) async fn enrolled_only() -> Served {
        let (timing, store, identity) = (Timing::default(), Stuck::new(1), Identity::make().unwrap());
        let gate = EnrolledOnly::new(store.store.clone(), || NOW);
        Served::behind(timing, store, "here", identity, 8, gate).await
    }

    async fn behind(
        timing: Timing,
        store: Stuck,
        journal: &str,
        identity: Identity,
        connections: usize,
        gate: impl Gate,
    ) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, fingerprint) = (listener.local_addr().unwrap(), identity.fingerprint());
        let hosts = Hosts::default();
        let options = Options {
            journal: journal.to_owned(),
            clock: || NOW,
            connections,
            timing,
            bells: Bells::default(),
            hosts: hosts.clone(),
        };
        let serving = tokio::spawn({
            let store = store.clone();
            async move {
                let Err(error) = serve(listener, &identity, store, gate, options).await;
                panic!("{error}");
            }
        });
        Served { store, hosts, address, fingerprint, timing, serving }
    }

    pub(super) fn remote(&self, token: &str) -> Remote {
        Remote {
            servers: vec![self.address.to_string()],
            trust: Trust::Fingerprints(vec![self.fingerprint]),
            token: token.to_owned(),
            said: Said::default(),
            timing: self.timing,
        }
    }

    pub(super) async fn link(&self, token: &str) -> Link {
        Link::connect(self.remote(token)).await.expect("the server lets it in")
    }

    /// Makes a TLS connection that a test speaks by itself.
    pub(super) async fn raw(&self) -> TlsStream<TcpStream> {
        let config = Trust::Fingerprints(vec![self.fingerprint]).config().unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

/// Returns the hello of a token.
pub(super) fn hello(token: &str) -> Message {
    let hello = Hello { token: token.to_owned(), version: None, slots: None, host: None };
    Message { kind: Kind::Hello, stream: 0, body: serde_json::to_vec(&hello).unwrap() }
}

pub(super) fn id(n: u8) -> JobId {
    JobId::new(0, NOW, [n; 10])
}

fn append_id() -> AppendId {
    static MADE: AtomicU64 = AtomicU64::new(0);
    AppendId((1 << 127) | u128::from(MADE.fetch_add(1, Ordering::Relaxed)))
}

pub(super) fn append(job: &Job, fence: Option<&Fence>, facts: Vec<Fact>) -> (Append, Job) {
    Append::new(job, fence, append_id(), NOW, facts).expect("the facts follow")
}

pub(super) fn submission(n: u8, spec: Spec) -> (Append, Job) {
    let limits = spec.limits;
    let fact = Submitted { spec: Arc::new(spec), by: "tester".to_owned(), limits, carried: None }.into();
    append(&Job::unborn(id(n)), None, vec![fact])
}

pub(super) fn spec() -> Spec {
    Spec { group: "q".to_owned(), ..Spec::command(["true"], "/") }
}

/// Submits a job.
pub(super) async fn submit(journal: &impl Journal, n: u8) -> Job {
    let (append, job) = submission(n, spec());
    journal.append(append).await.expect("a new job is stored");
    job
}

/// Where every owner is.
pub(super) fn place() -> Place {
    Place::new("here", "boot-1")
}

pub(super) fn renewal(owner: &str) -> Renew {
    Renew { owner: OwnerId(owner.into()), place: place(), incarnation: None, lease_ms: 30_000 }
}

/// Registers an owner.
pub(super) async fn register(journal: &impl Journal, owner: &str) -> Claimant {
    let renewed = journal.renew(renewal(owner)).await.expect("an owner registers");
    let (owner, host) = (OwnerId(owner.into()), place().host);
    Claimant { owner, incarnation: renewed.incarnation, host, boot: None }
}

pub(super) fn claim_of(by: &Claimant) -> Claim {
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    Claim { by: by.clone(), from, labels: WorkerLabels::default(), at_most: 9, now: NOW }
}

/// Claims the one job that is ready.
pub(super) async fn take(journal: &impl Journal, by: &Claimant) -> (Job, Fence) {
    let taken = journal.claim(claim_of(by)).await.expect("a registered owner claims");
    let [one] = &taken[..] else { panic!("{taken:?}") };
    (Job::fold(one.job, &one.events).unwrap(), one.fence.clone())
}

/// A request of a person.
pub(super) fn limit_changed(value: u64) -> Fact {
    LimitChanged { by: "tester".to_owned(), limit: Limit::Wall, value }.into()
}

/// An owner's first fact.
pub(super) fn launch_intended(job: &Job) -> Fact {
    let attempt = AttemptNo(job.attempts.len() as u32 + 1);
    LaunchIntended { attempt, epoch: job.epoch, limits: job.limits, boot: None }.into()
}
