//! The servers of a fleet for each other: a worker that is connected to another one is asked through it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lastword_core::OwnerId;
use lastword_link::{Hosts, Link, Peer, Remote, Timing, Trust};
use lastword_store::attempts::{Alive, BoxFuture, NotRead, Part, Piece, Ran, Stream};
use lastword_store::{Attempts, Enrolments, Said, ServerDoor};

/// How often a server says how it is reached: what was said may have been lost with a database.
const INTERVAL: Duration = Duration::from_secs(60);

/// All workers of the fleet, as one server reaches them. Clones share the links.
#[derive(Clone)]
pub(super) struct Peers<E> {
    journal: E,
    name: OwnerId,
    /// Those that are connected here.
    hosts: Hosts,
    /// Links to other servers, by name.
    links: Arc<Mutex<HashMap<OwnerId, (ServerDoor, Peer)>>>,
}

impl<E: Enrolments> Peers<E> {
    pub(super) fn new(journal: E, name: OwnerId, hosts: Hosts) -> Peers<E> {
        Peers { journal, name, hosts, links: Arc::default() }
    }

    /// Returns the way to a worker. If none is known, its host is away.
    async fn way(&self, worker: &OwnerId) -> Arc<dyn Attempts> {
        if !self.hosts.is_connected(worker)
            && let Ok(Some(door)) = self.journal.server_of(worker.clone()).await
            && door.name != self.name
            && let Some(peer) = self.peer(door)
        {
            return Arc::new(peer);
        }
        Arc::new(self.hosts.clone())
    }

    /// Returns the link to a server; makes it if there is none, or if it is reached in another way since.
    fn peer(&self, door: ServerDoor) -> Option<Peer> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, peer)) = links.get(&door.name)
            && *known == door
        {
            return Some(peer.clone());
        }
        let link = Link::open(Remote {
            servers: vec![door.address.clone()],
            trust: Trust::Fingerprints(vec![door.fingerprint.parse().ok()?]),
            token: door.token.clone(),
            said: Said::default(),
            timing: Timing::default(),
        });
        let peer = Peer::new(link.ok()?);
        links.insert(door.name.clone(), (door, peer.clone()));
        Some(peer)
    }
}

impl<E: Enrolments> Attempts for Peers<E> {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        let peers = self.clone();
        Box::pin(async move { peers.way(&ran.owner).await.read(ran, stream, part).await })
    }

    fn alive(&self, ran: Ran) -> BoxFuture<Option<Alive>> {
        let peers = self.clone();
        Box::pin(async move { peers.way(&ran.owner).await.alive(ran).await })
    }

    fn resize(&self, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        let peers = self.clone();
        Box::pin(async move { peers.way(&ran.owner).await.resize(ran, rows, columns).await })
    }
}

/// Tells other servers how this one is reached, again and again.
pub(super) async fn keep_announcing(journal: impl Enrolments, door: ServerDoor) {
    loop {
        if let Err(error) = journal.announce(door.clone()).await {
            tracing::warn!(%error, "other servers cannot be told how to reach this one");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
