//! Answers for attempts: what a server asks over the connection that this client made.

use std::sync::Arc;

use lastword_core::OwnerId;
use lastword_store::Attempts;
use lastword_store::attempts::Stream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::shared::{Outgoing, Shared};
use crate::ask::{ASKED_MAX, Ask, Told, What, part};
use crate::frame::{Kind, Message};
use crate::outbox::{Lane, Outbox};

/// Answers that wait to be written at once, at most. An append of this client waits for no more than that.
const WRITTEN_MAX: usize = 2;

/// The questions of one connection.
pub(super) struct Questions<'a> {
    pub(super) shared: &'a Shared,
    outbox: &'a Outbox<Outgoing>,
    /// Which connection it is: an answer that was not written before its end is dropped.
    connection: u64,
    places: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

impl Questions<'_> {
    pub(super) fn new<'a>(
        shared: &'a Shared,
        outbox: &'a Outbox<Outgoing>,
        connection: u64,
    ) -> Questions<'a> {
        Questions {
            shared,
            outbox,
            connection,
            places: Arc::new(Semaphore::new(ASKED_MAX)),
            writing: Arc::new(Semaphore::new(WRITTEN_MAX)),
            tasks: JoinSet::new(),
        }
    }

    /// Answers a question in a task of its own. The error says how the server broke the protocol.
    pub(super) fn answer(&mut self, message: &Message) -> Result<(), &'static str> {
        while self.tasks.try_join_next().is_some() {}
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| "more questions at once than are allowed")?;
        let ask = serde_json::from_slice::<Ask>(&message.body);
        let (attempts, outbox, writing) =
            (self.shared.attempts.get().cloned(), self.outbox.clone(), Arc::clone(&self.writing));
        let (connection, stream) = (self.connection, message.stream);
        self.tasks.spawn(async move {
            let failed = |why: &str| (Told::Failed(why.to_owned()), Vec::new());
            let (told, bytes) = match (ask, attempts) {
                (Ok(ask), Some(attempts)) => told(&*attempts, ask).await,
                (Ok(_), None) => failed("the worker is starting"),
                // The server may be of a later version.
                (Err(_), _) => failed("the worker does not know this question"),
            };
            let Ok(turn) = writing.acquire_owned().await else { return };
            let message = Message { kind: Kind::Told, stream, body: told.encode(&bytes) };
            outbox.put(Lane::Ordinary, Outgoing::Told { connection, message, _places: [place, turn] });
        });
        Ok(())
    }
}

async fn told(attempts: &dyn Attempts, ask: Ask) -> (Told, Vec<u8>) {
    // This client is asked about what it ran itself.
    let ran = ask.of(OwnerId("".into()));
    match ask.what {
        What::Read { is_stderr, from, before_end, limit, wait_ms } => {
            let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
            Told::of_read(attempts.read(ran, stream, part(from, before_end, limit, wait_ms)).await)
        }
        What::Alive => {
            let alive = attempts.alive(ran).await.map(|alive| (alive.count, alive.pids));
            (Told::Alive(alive), Vec::new())
        }
        What::Resize { rows, columns } => {
            (Told::Resized(attempts.resize(ran, rows, columns).await), Vec::new())
        }
        What::RemoveFiles => (Told::Removed(attempts.remove_files(ran.owner, ran.job).await), Vec::new()),
    }
}
