//! The one writer: a thread that takes all waiting requests, writes them in one transaction, and answers once that is durable.
//!
//! Batches need no timer: the requests that arrive while one batch is being synced form the next batch.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lastword_core::Seq;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::append::{Prepared, append};
use super::claim::claim;
use super::failure::failed;
use super::lives::renew;
use super::log::newest_place;
use super::open::{Opened, connect};
use super::witness::{Void, Witness};
use crate::hints::Bell;
use crate::{Claim, Claimed, Error, Renew, Renewed, Result};

/// Requests in the queue. Each caller waits for its answer, so this bounds the number of callers with a request in memory; further callers
/// wait for a place.
const QUEUE_MAX: usize = 4096;

/// Prepared statements the connection keeps: more than this module has, so that none is ever prepared twice.
const STATEMENTS: usize = 64;

/// Where the answer to a request goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

/// A request to the writer.
pub(super) enum Request {
    /// The append goes back with the answer, so that its caller frees it, not the one writer.
    Append(Box<Prepared>, Reply<(Seq, Box<Prepared>)>),
    Claim(Box<Claim>, Reply<Vec<Claimed>>),
    Renew(Renew, Reply<Renewed>),
    /// Any other write: groups, keys, removals.
    Change(Box<dyn Change>),
}

/// A change that is written in a batch with others, and again by itself if that batch fails. So `run` may be called twice.
pub(super) trait Change: Send {
    /// Writes it in the transaction of the batch, and keeps the answer until the commit.
    fn run(&mut self, connection: &Connection) -> Result<()>;

    /// Sends the answer.
    fn reply(self: Box<Self>);

    /// Sends an error.
    fn fail(self: Box<Self>, error: Error);
}

/// A change in the form of a closure.
struct Pending<T, F> {
    change: F,
    /// The answer of the last run, until the commit.
    answer: Option<T>,
    reply: Reply<T>,
}

impl<T: Send, F: Fn(&Connection) -> Result<T> + Send> Change for Pending<T, F> {
    fn run(&mut self, connection: &Connection) -> Result<()> {
        self.answer = Some((self.change)(connection)?);
        Ok(())
    }

    fn reply(self: Box<Self>) {
        // Fails only if the caller no longer waits.
        let _ = self.reply.send(self.answer.ok_or_else(stopped));
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// A request, a second one to write right after it in the same transaction, and their place in the queue.
type Waiting = (Request, Option<Request>, OwnedSemaphorePermit);

/// The callers' side: sends requests to the writer's thread.
#[derive(Debug)]
pub(super) struct Handle {
    /// One permit per place in the queue.
    places: Arc<Semaphore>,
    /// `None` only while it is dropped.
    queue: Option<Sender<Waiting>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Handle {
    /// Starts the thread.
    pub(super) fn start(opened: Opened, void: Void, batch_max: usize, bell: Arc<Bell>) -> Result<Handle> {
        let (queue, waiting) = channel();
        let mut writer = Writer::new(opened, void, batch_max, bell);
        let thread = thread::Builder::new().name("journal-writer".to_owned());
        let thread = thread
            .spawn(move || writer.run(&waiting))
            .map_err(|error| Error::Unavailable(format!("no thread for the writer: {error}")))?;
        let places = Arc::new(Semaphore::new(QUEUE_MAX));
        Ok(Handle { places, queue: Some(queue), thread: Mutex::new(Some(thread)) })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply), None).await?;
        answer.await.map_err(|_| stopped())?
    }

    /// Sends two requests that are written together, the second after the first, and waits for both answers.
    pub(super) async fn ask_both<T, U>(
        &self,
        one: impl FnOnce(Reply<T>) -> Request,
        other: impl FnOnce(Reply<U>) -> Request,
    ) -> (Result<T>, Result<U>) {
        let ((reply, answer), (other_reply, other_answer)) = (oneshot::channel(), oneshot::channel());
        if let Err(error) = self.send(one(reply), Some(other(other_reply))).await {
            return (Err(error.clone()), Err(error));
        }
        (
            answer.await.unwrap_or_else(|_| Err(stopped())),
            other_answer.await.unwrap_or_else(|_| Err(stopped())),
        )
    }

    /// Sends a change and waits for its answer.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(|reply| Request::Change(Box::new(Pending { change, answer: None, reply }))).await
    }

    async fn send(&self, request: Request, other: Option<Request>) -> Result<()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| stopped())?;
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send((request, other, place)).map_err(|_| stopped())
    }
}

/// Returns the error of a request that the writer did not answer. It may have been written, which `Unavailable` implies.
fn stopped() -> Error {
    Error::Unavailable("the writer has stopped".to_owned())
}

impl Drop for Handle {
    /// Waits for the thread, so that the file is complete and closed when the journal is dropped.
    fn drop(&mut self) {
        // The thread ends when its queue is closed and empty.
        self.queue = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // An error means that the writer panicked, and then every waiting caller got an error.
            let _ = thread.join();
        }
    }
}

/// The result of a request. It is sent after the commit.
enum Answer {
    Append(Seq),
    Claim(Vec<Claimed>),
    Renew(Renewed),
    Change,
    /// Checked and refused; nothing was written for it.
    Refused(Error),
}

impl Request {
    /// Sends the answer, to no effect if the caller no longer waits.
    fn reply(self, answer: Answer) {
        match (self, answer) {
            (Request::Append(prepared, reply), Answer::Append(seq)) => drop(reply.send(Ok((seq, prepared)))),
            (Request::Claim(_, reply), Answer::Claim(taken)) => drop(reply.send(Ok(taken))),
            (Request::Renew(_, reply), Answer::Renew(renewed)) => drop(reply.send(Ok(renewed))),
            (Request::Change(change), Answer::Change) => change.reply(),
            (request, Answer::Refused(error)) => request.fail(error),
            _ => unreachable!("the answer is of the kind of its request"),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Request::Append(_, reply) => drop(reply.send(Err(error))),
            Request::Claim(_, reply) => drop(reply.send(Err(error))),
            Request::Renew(_, reply) => drop(reply.send(Err(error))),
            Request::Change(change) => change.fail(error),
        }
    }
}

/// Why a batch was not written.
enum Broken {
    /// One of its requests failed, perhaps half written, so all were rolled back. The others can be written without it.
    Request(Error),
    /// The transaction itself failed.
    Transaction(Error),
}

/// The size of the last batch, and how long it took to write.
#[derive(Clone, Copy, Default)]
struct Pace {
    batch: usize,
    took: Duration,
}

/// The thread's side: has the only connection that writes.
pub(super) struct Writer {
    connection: Connection,
    /// Identifies this database file. A fence of another one, such as the original of a copy, is refused.
    instance: u64,
    file: PathBuf,
    witness: Witness,
    void: Void,
    /// The last batch failed. A connection that was opened at a bad moment stays bad, so the next batch gets a new one.
    is_suspect: bool,
    batch_max: usize,
    /// Wakes readers after a commit.
    bell: Arc<Bell>,
}

impl Writer {
    pub(super) fn new(opened: Opened, void: Void, batch_max: usize, bell: Arc<Bell>) -> Writer {
        let Opened { connection, instance, file, witness, .. } = opened;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let batch_max = batch_max.max(1);
        Writer { connection, instance, file, witness, void, is_suspect: false, batch_max, bell }
    }

    /// Writes batch after batch until all senders are dropped.
    fn run(&mut self, waiting: &Receiver<Waiting>) {
        let mut last = Pace::default();
        let mut batch = Vec::new();
        while let Ok(first) = waiting.recv() {
            batch.push(first);
            self.gather(waiting, &mut batch, last);
            let began = Instant::now();
            last.batch = batch.len();
            // Frees the places in the queue, too.
            self.write(batch.drain(..).flat_map(|(one, other, _)| [Some(one), other]).flatten().collect());
            last.took = began.elapsed();
        }
    }

    /// Takes everything that waits. Callers that were answered together come back together, so this also waits for as many requests as the
    /// last batch had, but at most a quarter of the time of a commit: otherwise the first caller to come back would get a sync of its own,
    /// and all others would wait for that.
    fn gather(&self, waiting: &Receiver<Waiting>, batch: &mut Vec<Waiting>, last: Pace) {
        let until = Instant::now() + last.took / 4;
        while batch.len() < self.batch_max {
            match waiting.try_recv() {
                Ok(request) => batch.push(request),
                Err(_) if batch.len() >= last.batch => return,
                Err(_) => {
                    let left = until.saturating_duration_since(Instant::now());
                    match waiting.recv_timeout(left) {
                        Ok(request) => batch.push(request),
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        }
    }

    /// Writes a batch and answers each of its requests.
    pub(super) fn write(&mut self, mut batch: Vec<Request>) {
        self.reconnect();
        match self.transact(&mut batch) {
            Ok(answers) => {
                batch.into_iter().zip(answers).for_each(|(request, answer)| request.reply(answer));
                self.bell.ring();
            }
            // Again, each in its own transaction, so that only the request that cannot be written fails.
            Err(Broken::Request(_)) if batch.len() > 1 => {
                batch.drain(..).for_each(|request| self.write(vec![request]));
            }
            Err(Broken::Request(error)) => {
                self.is_suspect = matches!(error, Error::Unavailable(_));
                batch.into_iter().for_each(|request| request.fail(error.clone()));
            }
            // Whatever the error was: a commit that failed may have been written, which only `Unavailable` says.
            Err(Broken::Transaction(error)) => {
                self.is_suspect = true;
                let error = match error {
                    Error::Unavailable(_) => error,
                    other => Error::Unavailable(other.to_string()),
                };
                batch.into_iter().for_each(|request| request.fail(error.clone()));
            }
        }
    }

    /// Takes a new connection after a failure, unless the file there is another one now.
    fn reconnect(&mut self) {
        if self.is_suspect
            && self.witness.check().is_ok()
            && let Ok(connection) = connect(&self.file, OpenFlags::SQLITE_OPEN_READ_WRITE)
        {
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            self.connection = connection;
            self.is_suspect = false;
        }
    }

    /// Carries out all requests in one transaction. Returns their answers, in order, if it was committed.
    fn transact(&mut self, batch: &mut [Request]) -> std::result::Result<Vec<Answer>, Broken> {
        self.sql("begin immediate").map_err(Broken::Transaction)?;
        let answers = batch.iter_mut().map(|request| self.carry_out(request));
        let answers = answers.collect::<Result<Vec<Answer>>>().map_err(Broken::Request);
        let written = answers.and_then(|answers| {
            let newest = newest_place(&self.connection).map_err(Broken::Transaction)?;
            self.witness.check().map_err(Broken::Transaction)?;
            self.void.set(false);
            self.sql("commit").map_err(Broken::Transaction)?;
            Ok((answers, newest))
        });
        // SQLite rolls back by itself after some errors, and is in autocommit mode then.
        if written.is_err() && !self.connection.is_autocommit() {
            // If this fails too, the next `begin` fails and reports it.
            let _ = self.sql("rollback");
        }
        let (answers, newest) = written?;
        // It may have gone into a file without a name after all.
        let named = self.witness.check();
        self.void.set(named.is_err());
        named.map_err(Broken::Transaction)?;
        self.witness.note(newest);
        Ok(answers)
    }

    /// Carries out one request. A refusal was decided before anything was written, so it is an answer like any other; after an error the
    /// request may be half written.
    fn carry_out(&self, request: &mut Request) -> Result<Answer> {
        let (connection, instance) = (&self.connection, self.instance);
        let answer = match request {
            Request::Append(prepared, _) => append(connection, instance, prepared).map(Answer::Append),
            Request::Claim(wanted, _) => claim(connection, instance, wanted).map(Answer::Claim),
            Request::Renew(wanted, _) => renew(connection, instance, wanted).map(Answer::Renew),
            Request::Change(change) => change.run(connection).map(|()| Answer::Change),
        };
        match answer {
            Err(
                refused @ (Error::Conflict { .. }
                | Error::Fenced { .. }
                | Error::Lapsed { .. }
                | Error::Taken { .. }),
            ) => Ok(Answer::Refused(refused)),
            other => other,
        }
    }

    /// Runs a statement without parameters or rows.
    fn sql(&self, sql: &str) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        statement.execute([]).map(|_| ()).map_err(failed)
    }
}
