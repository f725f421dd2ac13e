//! A server of a fleet: the journal is a PostgreSQL database, its jobs run on workers, and this process is their clerk.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lastword_api::Code;
use lastword_core::OwnerId;
use lastword_engine::{Engine, ServerHost, now};
use lastword_link::{Bells, EnrolledOnly, Hosts, Identity, Timing};
use lastword_server::{Door, Fleet};
use lastword_store::postgres::{self, Postgres};
use lastword_store::{Error, ServerDoor, Token};
use tokio::net::TcpListener;

use super::peers::{Peers, keep_announcing};
use super::removals::Notes;
use crate::daemon::JOBS;
use crate::daemon::names::host_name;
use crate::daemon::role::Role;
use crate::daemon::service::{Place, Service};
use crate::failure::Failure;
use crate::paths;

/// The folder of the certificate and its key.
const LINK: &str = "link";

/// Connections of workers, at most. A cell has 2,000 workers, and any of its servers may have to take all of them.
const CONNECTIONS_MAX: usize = 4_096;

/// A server.
pub(crate) struct Server {
    /// The address of the database.
    store: String,
    /// Where workers connect.
    listen: SocketAddr,
    /// Where they are told to, if that is elsewhere.
    advertise: Option<String>,
    /// How long its lease lasts. It holds jobs for a moment only.
    lease_ms: u64,
    /// Those that are connected.
    bells: Bells,
    /// Their hosts, which have the output.
    hosts: Hosts,
    /// How workers find it, once it listens.
    door: OnceLock<Door>,
}

impl Server {
    pub(crate) fn new(store: String, listen: SocketAddr, advertise: Option<String>, lease_ms: u64) -> Server {
        Server {
            store,
            listen,
            advertise,
            lease_ms,
            bells: Bells::default(),
            hosts: Hosts::default(),
            door: OnceLock::new(),
        }
    }
}

/// Returns the name of the server of a place.
fn name(place: &Place) -> OwnerId {
    OwnerId(format!("server-{}", place.host_id.0).into())
}

impl Service for Server {
    type Journal = Postgres;
    const ROLE: Role = Role::Server;

    async fn open(&self, place: &Place) -> Result<Postgres, Failure> {
        let unavailable = |error: &dyn std::fmt::Display| Failure::new(Code::Unavailable, error.to_string());
        let options =
            postgres::Options { remember: Some(place.paths.state.clone()), ..postgres::Options::of_server() };
        let journal = Postgres::open(&self.store, options).await.map_err(|error| match error {
            Error::Unavailable(why) => unavailable(&format!(
                "the database that --store or LASTWORD_STORE names cannot be used: {why}; look at the address, and whether PostgreSQL answers there"
            )),
            other => unavailable(&other),
        })?;
        let folder = place.paths.in_state(LINK);
        paths::make_private(&folder)?;
        let identity = Identity::in_folder(&folder)
            .map_err(|error| unavailable(&format!("{}: {error}", folder.display())))?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| unavailable(&format!("cannot listen on {}: {error}", self.listen)))?;
        let local = listener.local_addr().map_err(|error| unavailable(&error))?;
        let address = self.advertise.clone().unwrap_or_else(|| match local.ip().is_unspecified() {
            // Every address of this host: other hosts know it by its name.
            true => format!("{}:{}", host_name(), local.port()),
            false => local.to_string(),
        });
        let door = Door { address, fingerprint: identity.fingerprint().to_string() };
        tracing::info!(listen = %local, address = door.address, fingerprint = door.fingerprint, "workers can connect");
        let options = lastword_link::Options {
            journal: journal.name(),
            clock: || now().wall,
            connections: CONNECTIONS_MAX,
            timing: Timing::default(),
            bells: self.bells.clone(),
            hosts: self.hosts.clone(),
        };
        let token = Token::make().map_err(|error| unavailable(&error))?;
        let gate = EnrolledOnly::new(journal.clone(), options.clock).of(name(place), token.hash());
        let door = self.door.get_or_init(|| door);
        tokio::spawn(keep_announcing(
            journal.clone(),
            ServerDoor {
                name: name(place),
                address: door.address.clone(),
                fingerprint: door.fingerprint.clone(),
                token: token.reveal().to_owned(),
            },
        ));
        let store = journal.clone();
        tokio::spawn(async move {
            let Err(error) = lastword_link::serve(listener, &identity, store, gate, options).await;
            tracing::error!(%error, "workers cannot connect any more");
        });
        tokio::spawn(prepare_months(journal.clone()));
        Ok(journal)
    }

    fn fleet(&self, journal: &Postgres) -> Option<Fleet> {
        self.door.get().map(|door| Fleet::new(journal.clone(), door.clone()))
    }

    fn start(&self, place: &Place, journal: &Postgres) -> Engine<Postgres> {
        let workers = Arc::new(self.bells.clone());
        let options = place.options(name(place)).clerk(workers, self.lease_ms);
        let removals = Notes::start(journal.clone(), self.hosts.clone());
        let workers = Peers::new(journal.clone(), name(place), self.hosts.clone());
        let host = ServerHost::new(place.paths.in_state(JOBS), workers, removals);
        Engine::start(journal.clone(), host, options)
    }
}

/// Makes partitions for the months to come, once a day.
async fn prepare_months(journal: Postgres) {
    const DAY: Duration = Duration::from_secs(86_400);
    loop {
        tokio::time::sleep(DAY).await;
        if let Err(error) = journal.prepare_months(now().wall).await {
            tracing::warn!(%error, "the partitions of the next months cannot be made");
        }
    }
}
