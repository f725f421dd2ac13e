//! A server of a fleet: the journal is a PostgreSQL database, its jobs run on workers, and this process is their clerk.

use std::net::SocketAddr;
use std::sync::Arc;

use lastword_api::Code;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{JobId, OwnerId};
use lastword_engine::{Duties, Engine, Options, ServerHost, Workers, now};
use lastword_link::{Bells, Hosts, Identity, Principal, Timing};
use lastword_store::Line;
use lastword_store::postgres::{self, Postgres};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::daemon::JOBS;
use crate::daemon::role::Role;
use crate::daemon::service::{Place, Service};
use crate::failure::Failure;
use crate::paths;

/// The folder of the certificate and its key.
const LINK: &str = "link";

/// Connections of workers, at most. A cell has 2,000 workers, and any of its servers may have to take all of them.
const CONNECTIONS_MAX: usize = 4_096;

/// How long the lease of a server lasts. It holds jobs for a moment only.
const LEASE_MS: u64 = 15_000;

/// How often a server sweeps. What hints bring at once, a sweep brings if they get lost.
const SWEEP_MS: u64 = 10_000;

/// A server.
pub(crate) struct Server {
    /// The address of the database.
    pub(crate) store: String,
    /// Where workers connect.
    pub(crate) listen: SocketAddr,
    /// Those that are connected.
    pub(crate) bells: Bells,
    /// Their hosts, which have the output.
    pub(crate) hosts: Hosts,
}

impl Service for Server {
    type Journal = Postgres;
    const ROLE: Role = Role::Server;

    async fn open(&self, place: &Place) -> Result<Postgres, Failure> {
        let unavailable = |error: &dyn std::fmt::Display| Failure::new(Code::Unavailable, error.to_string());
        let options =
            postgres::Options { remember: Some(place.paths.state.clone()), ..postgres::Options::default() };
        let journal = Postgres::open(&self.store, options).await.map_err(|error| unavailable(&error))?;
        let folder = place.paths.in_state(LINK);
        paths::make_private(&folder)?;
        let identity = Identity::in_folder(&folder)
            .map_err(|error| unavailable(&format!("{}: {error}", folder.display())))?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| unavailable(&format!("cannot listen on {}: {error}", self.listen)))?;
        tracing::info!(listen = %self.listen, fingerprint = %identity.fingerprint(), "workers can connect");
        let options = lastword_link::Options {
            journal: journal.name(),
            clock: || now().wall,
            connections: CONNECTIONS_MAX,
            timing: Timing::default(),
            bells: self.bells.clone(),
            hosts: self.hosts.clone(),
        };
        let (store, gate) = (journal.clone(), known_workers(place)?);
        tokio::spawn(async move {
            let Err(error) = lastword_link::serve(listener, &identity, store, gate, options).await;
            tracing::error!(%error, "workers cannot connect any more");
        });
        tokio::spawn(prepare_months(journal.clone()));
        Ok(journal)
    }

    fn start(&self, place: &Place, journal: &Postgres) -> Engine<Postgres> {
        let owner = OwnerId(format!("server-{}", place.host_id.0).into());
        let options = Options {
            duties: Duties::Clerk,
            workers: Some(Arc::new(Ringing(self.bells.clone()))),
            lease_ms: LEASE_MS,
            sweep_ms: SWEEP_MS,
            ..place.options(owner)
        };
        let host = ServerHost::new(place.paths.in_state(JOBS), self.hosts.clone());
        Engine::start(journal.clone(), host, options)
    }
}

/// Makes partitions for the months to come, once a day.
async fn prepare_months(journal: Postgres) {
    const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
    loop {
        tokio::time::sleep(DAY).await;
        if let Err(error) = journal.prepare_months(now().wall).await {
            tracing::warn!(%error, "the partitions of the next months cannot be made");
        }
    }
}

/// The workers that are connected to this server.
#[derive(Debug)]
struct Ringing(Bells);

impl Workers for Ringing {
    fn news(&self, holder: &OwnerId, job: JobId) {
        self.0.news(holder, job);
    }

    fn ready(&self, line: &Line) {
        self.0.ready(&line.group, &WorkerLabels::from_key(&line.labels));
    }
}

#[derive(Deserialize)]
struct KnownWorker {
    name: String,
    token: String,
    #[serde(default)]
    labels: Vec<String>,
}

/// Returns the gate for the workers in a file.
fn known_workers(
    place: &Place,
) -> Result<impl Fn(&str) -> Option<Principal> + Send + Sync + 'static, Failure> {
    let file = place.paths.in_state("workers.json");
    let text = std::fs::read(&file).unwrap_or_else(|_| b"[]".to_vec());
    let known: Vec<KnownWorker> = serde_json::from_slice(&text)
        .map_err(|error| Failure::new(Code::Invalid, format!("{}: {error}", file.display())))?;
    Ok(move |token: &str| {
        let worker = known.iter().find(|worker| worker.token == token)?;
        let labels = worker.labels.iter().cloned().collect();
        Some(Principal::Worker { owner: OwnerId(worker.name.as_str().into()), labels })
    })
}
