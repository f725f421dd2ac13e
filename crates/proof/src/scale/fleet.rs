//! A server and its workers in one process: the real protocol over TLS, the real engines, and trees that are not there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{HostId, OwnerId, Timestamp};
use lastword_engine::{Engine, Options, ServerHost, now};
use lastword_link::{Bells, EnrolledOnly, Hosts, Identity, Link, Remote, Timing, Trust, serve};
use lastword_store::postgres::{self, Postgres};
use lastword_store::{Enrolling, Enrolments as _, Invitation, Said, Token, TokenHash};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::host::Treeless;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The lease of a server and of a worker, as the product has it.
const LEASE_MS: u64 = 15_000;

/// Workers that start at once: each makes a TLS connection, and a server greets so many strangers.
const AT_ONCE: usize = 100;

/// A server, its journal and its workers.
pub(super) struct Fleet {
    pub(super) journal: Postgres,
    remote: Remote,
    serving: JoinHandle<()>,
    // Dropped before the journal is closed.
    workers: Vec<Engine<Link>>,
    _clerk: Engine<Postgres>,
    _folder: TempDir,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn wall() -> Timestamp {
    now().wall
}

impl Fleet {
    /// Opens the journal in a database, and starts a server without workers.
    pub(super) async fn start(url: &str) -> Outcome<Fleet> {
        // What a bench drives at the journal itself has leases that it never renews.
        let options = postgres::Options { lease_max_ms: Some(u64::MAX), ..postgres::Options::of_server() };
        let journal = Postgres::open(url, options).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let servers = vec![listener.local_addr()?.to_string()];
        let identity = Identity::make()?;
        let (trust, timing) = (Trust::Fingerprints(vec![identity.fingerprint()]), Timing::default());
        let (bells, hosts) = (Bells::default(), Hosts::default());
        let options = lastword_link::Options {
            journal: journal.name(),
            clock: wall,
            connections: 4_096,
            timing,
            bells: bells.clone(),
            hosts: hosts.clone(),
        };
        let gate = EnrolledOnly::new(journal.clone(), wall);
        let store = journal.clone();
        let serving = tokio::spawn(async move {
            let Err(error) = serve(listener, &identity, store, gate, options).await;
            panic!("the server cannot serve: {error}");
        });
        let folder = tempfile::tempdir()?;
        let host = ServerHost::new(folder.path().join("jobs"), hosts, journal.clone());
        let options = Options::new(OwnerId("server".into()), HostId("server".into()));
        let options = options.clerk(Arc::new(bells), LEASE_MS);
        let clerk = Engine::start(journal.clone(), host, options);
        let remote = Remote { servers, trust, token: String::new(), said: Said::default(), timing };
        Ok(Fleet { journal, remote, serving, workers: Vec::new(), _clerk: clerk, _folder: folder })
    }

    /// Starts workers until there are so many, and returns once each is ready.
    pub(super) async fn grow(&mut self, workers: usize, slots: u32) -> Outcome<()> {
        while self.workers.len() < workers {
            let first = self.workers.len();
            for number in first..workers.min(first + AT_ONCE) {
                let worker = self.worker(&format!("worker-{number}"), slots).await?;
                self.workers.push(worker);
            }
            for worker in &self.workers[first..] {
                worker.ready().await;
            }
        }
        Ok(())
    }

    /// Starts one more worker and lets it go, and returns how long its start took.
    pub(super) async fn start_one(&self, name: &str) -> Outcome<Duration> {
        let link = self.enrolled(name).await?;
        let began = Instant::now();
        let worker = start_worker(link, name, 1);
        worker.ready().await;
        Ok(began.elapsed())
    }

    async fn worker(&self, name: &str, slots: u32) -> Outcome<Engine<Link>> {
        Ok(start_worker(self.enrolled(name).await?, name, slots))
    }

    /// Enrols a worker, and connects it.
    async fn enrolled(&self, name: &str) -> Outcome<Link> {
        let (one_time, token) = (Token::make()?, Token::make()?);
        let (owner, labels, now) = (OwnerId(name.into()), WorkerLabels::default(), wall());
        self.journal.invite(Invitation { token: one_time.hash(), name: owner, labels, now }).await?;
        let one_time: TokenHash = one_time.hash();
        let enrolled = self.journal.enrol(Enrolling { one_time, token: token.hash(), now }).await?;
        enrolled.map_err(|why| format!("{name} is not enrolled: {why:?}"))?;
        let remote = Remote { token: token.reveal().to_owned(), ..self.remote.clone() };
        Ok(Link::connect(remote).await?)
    }
}

fn start_worker(link: Link, name: &str, slots: u32) -> Engine<Link> {
    let options = Options::new(OwnerId(name.into()), HostId(name.into())).worker(slots, LEASE_MS);
    Engine::start(link, Treeless::default(), options)
}
