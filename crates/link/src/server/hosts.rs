//! The hosts of workers: which are connected here, and what they can be asked about attempts that they ran.
//!
//! A question goes over the connection that its worker made, in the ordinary lane, so a renewal overtakes it. A worker that does not answer,
//! or answers nonsense, costs the readers of its own jobs an error and nobody else anything.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lastword_core::{JobId, OwnerId, Timestamp};
use lastword_store::Attempts;
use lastword_store::attempts::{Alive, BoxFuture, NotRead, Part, Piece, Ran, Stream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::ask::{ASKED_MAX, Ask, Told, What};
use crate::asking::{self, Asks};
use crate::frame::{Kind, Message, broken};
use crate::outbox::{Counted, Lane, Outbox};

/// The hosts of the workers of one server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<HashMap<OwnerId, Host>>,
    /// A worker has connected.
    entered: Notify,
}

#[derive(Debug)]
enum Host {
    /// Its connections, never empty. Questions go over the last one.
    Connected(Vec<Arc<Line>>),
    /// It was connected until then.
    Away(Timestamp),
}

/// Questions over one connection.
#[derive(Debug)]
pub(super) struct Line {
    outbox: Outbox<Counted>,
    places: Arc<Semaphore>,
    answer_max: Duration,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    streams: u64,
    /// Where answers go. A question whose asker gave up counts until it is answered.
    open: HashMap<u64, (oneshot::Sender<Vec<u8>>, OwnedSemaphorePermit)>,
    is_over: bool,
}

/// A connection's entry in the table, which ends with it.
pub(super) struct Entry {
    hosts: Hosts,
    owner: OwnerId,
    clock: fn() -> Timestamp,
    pub(super) line: Arc<Line>,
}

impl Entry {
    /// Has questions go over this connection from now on: the lease of the worker was renewed over it. Another host with a copy of the
    /// enrolment can connect, but has no lease, and none of the output.
    pub(super) fn speaks(&self) {
        if let Some(Host::Connected(lines)) = self.hosts.table().get_mut(&self.owner)
            && !lines.last().is_some_and(|line| Arc::ptr_eq(line, &self.line))
        {
            lines.retain(|line| !Arc::ptr_eq(line, &self.line));
            lines.push(Arc::clone(&self.line));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.hosts.table();
        // The worker may have connected again before the end of this connection was noticed.
        if let Some(Host::Connected(lines)) = table.get_mut(&self.owner) {
            lines.retain(|line| !Arc::ptr_eq(line, &self.line));
            if lines.is_empty() {
                table.insert(self.owner.clone(), Host::Away((self.clock)()));
            }
        }
        drop(table);
        // Last: its askers then look here since when it is away.
        self.line.end();
    }
}

impl Hosts {
    /// Enters a worker's connection. It is used if there is no other one, or once it [`speaks`](Entry::speaks) for the worker.
    pub(super) fn enter(
        &self,
        owner: &OwnerId,
        outbox: Outbox<Counted>,
        answer_max: Duration,
        clock: fn() -> Timestamp,
    ) -> Entry {
        let places = Arc::new(Semaphore::new(ASKED_MAX));
        let line = Arc::new(Line { outbox, places, answer_max, asked: Mutex::default() });
        let mut table = self.table();
        if let Some(Host::Connected(lines)) = table.get_mut(owner) {
            lines.insert(0, Arc::clone(&line));
        } else {
            table.insert(owner.clone(), Host::Connected(vec![Arc::clone(&line)]));
        }
        drop(table);
        self.0.entered.notify_one();
        Entry { hosts: self.clone(), owner: owner.clone(), clock, line }
    }

    /// Returns the workers that are connected.
    pub fn connected(&self) -> Vec<OwnerId> {
        let table = self.table();
        let is_connected = |host: &Host| matches!(host, Host::Connected(_));
        table.iter().filter(|(_, host)| is_connected(host)).map(|(owner, _)| owner.clone()).collect()
    }

    /// Reports whether a worker is connected.
    pub fn is_connected(&self, worker: &OwnerId) -> bool {
        matches!(self.table().get(worker), Some(Host::Connected(_)))
    }

    /// Waits until another worker has connected. One that came before the call counts, once.
    pub async fn one_more(&self) {
        self.0.entered.notified().await;
    }

    /// Returns the connection of a worker, or since when it has none.
    fn line(&self, owner: &OwnerId) -> Result<Arc<Line>, NotRead> {
        match self.table().get(owner) {
            Some(Host::Connected(lines)) => lines.last().cloned().ok_or(NotRead::Away(None)),
            Some(Host::Away(since)) => Err(NotRead::Away(Some(*since))),
            None => Err(NotRead::Away(None)),
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<OwnerId, Host>> {
        // Ignores poison: nothing here can panic half-way.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asks for Hosts {
    /// Asks a worker. One whose connection ends meanwhile is away.
    async fn ask(&self, ran: &Ran, what: What) -> Result<(Told, Vec<u8>), NotRead> {
        let line = self.line(&ran.owner)?;
        let asking = timeout(line.answer_max, line.ask(ran, what));
        let Ok(answered) = asking.await else {
            let words = format!("worker {} did not answer within {} s", ran.owner, line.answer_max.as_secs());
            return Err(NotRead::Failed(words));
        };
        let Some(body) = answered else {
            return Err(self.line(&ran.owner).err().unwrap_or(NotRead::Away(None)));
        };
        Told::decode(body).map_err(|error| NotRead::Failed(format!("worker {} sent {error}", ran.owner)))
    }
}

impl Attempts for Hosts {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        asking::read(self.clone(), ran, stream, part)
    }

    fn alive(&self, ran: Ran) -> BoxFuture<Option<Alive>> {
        asking::alive(self.clone(), ran)
    }

    fn resize(&self, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        asking::resize(self.clone(), ran, rows, columns)
    }

    fn remove_files(&self, owner: OwnerId, job: JobId) -> BoxFuture<bool> {
        asking::remove_files(self.clone(), owner, job)
    }
}

impl Line {
    /// Sends a question and returns the answer as it came; `None` if the connection ended.
    async fn ask(&self, ran: &Ran, what: What) -> Option<Vec<u8>> {
        let ask = Ask { job: ran.job, attempt: ran.attempt.0, what };
        let body = serde_json::to_vec(&ask).ok()?;
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let (answer, answered) = oneshot::channel();
        let stream = {
            let mut asked = self.asked();
            if asked.is_over {
                return None;
            }
            asked.streams += 1;
            let stream = asked.streams;
            asked.open.insert(stream, (answer, place));
            stream
        };
        self.outbox.put(Lane::Ordinary, (Message { kind: Kind::Ask, stream, body }, None));
        answered.await.ok()
    }

    /// Hands out an answer.
    pub(super) fn told(&self, stream: u64, body: Vec<u8>) -> io::Result<()> {
        let (answer, _place) =
            self.asked().open.remove(&stream).ok_or_else(|| broken("an answer to no question"))?;
        // Its asker may have given up.
        let _ = answer.send(body);
        Ok(())
    }

    /// Tells every asker that the connection is over.
    fn end(&self) {
        let mut asked = self.asked();
        asked.is_over = true;
        asked.open.clear();
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
