//! `append`: callers wait in a queue; a few writers take all that wait, store them with one statement and answer each of them. While one
//! statement is under way, the next batch gathers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use lastword_core::view::row::PhaseName;
use lastword_core::{Append, JobId, Seq};
use tokio::sync::{mpsc, oneshot};

use super::batch::{Packed, settle, write};
use super::claim::Marks;
use super::connect::{Patience, after, bounded};
use super::failure::{Failure, Try};
use super::options::Options;
use super::wake::Wake;
use super::witness::Witness;
use crate::admit::Verdict;
use crate::{Error, Result};

/// Appends that wait for one writer, in batches. Two: one gathers while one is written; more would only hide that the
/// server is slow. Further callers wait in line.
const BATCHES_WAITING: usize = 2;

/// An append, and where its answer goes.
struct Waiting {
    packed: Packed,
    answer: oneshot::Sender<Result<Seq>>,
}

/// The queue. A job always goes to the same writer, so its appends keep their order.
pub(super) struct Appender {
    writers: Vec<mpsc::Sender<Waiting>>,
}

impl Appender {
    /// Starts the writers. They end when the appender is dropped and the queue is empty.
    pub(super) fn start(
        pool: Pool,
        options: &Options,
        marks: &Arc<Marks>,
        wake: &Arc<Wake>,
        witness: &Arc<Witness>,
    ) -> Appender {
        let batch_max = options.batch_max.max(1);
        let writers = (0..options.writers.max(1)).map(|_| {
            let (sender, queue) = mpsc::channel(batch_max * BATCHES_WAITING);
            let writer = Writer {
                pool: pool.clone(),
                batch_max,
                patience: options.patience,
                marks: Arc::clone(marks),
                wake: Arc::clone(wake),
                witness: Arc::clone(witness),
            };
            tokio::spawn(writer.run(queue));
            sender
        });
        Appender { writers: writers.collect() }
    }

    /// Stores an append.
    pub(super) async fn append(&self, append: Append) -> Result<Seq> {
        let gone = || Error::Unavailable("the journal was closed".to_owned());
        let mut hasher = DefaultHasher::new();
        append.job.hash(&mut hasher);
        let writer = &self.writers[hasher.finish() as usize % self.writers.len()];
        let (answer, answered) = oneshot::channel();
        writer.send(Waiting { packed: Packed::new(append), answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

struct Writer {
    pool: Pool,
    batch_max: usize,
    patience: Duration,
    marks: Arc<Marks>,
    wake: Arc<Wake>,
    witness: Arc<Witness>,
}

impl Writer {
    async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        // Appends behind another one of the same job.
        let mut later: Vec<Waiting> = Vec::new();
        loop {
            if later.is_empty() {
                match queue.recv().await {
                    Some(first) => later.push(first),
                    None => return,
                }
            }
            while later.len() < self.batch_max
                && let Ok(next) = queue.try_recv()
            {
                later.push(next);
            }
            let (batch, rest) = one_per_job(later);
            later = rest;
            self.flush(batch).await;
        }
    }

    /// Stores a batch and answers every append in it.
    async fn flush(&self, batch: Vec<Waiting>) {
        let several = batch.len() > 1;
        let (mut batch, mut patience) = (batch, Patience::new(self.patience));
        while !batch.is_empty() {
            match self.store(&mut batch).await {
                Ok(()) => {}
                // One of them makes all fail, and it is not known which.
                Err(Failure::Clash(_) | Failure::Final(_)) if several => {
                    for single in batch {
                        Box::pin(self.flush(vec![single])).await;
                    }
                    return;
                }
                Err(failure) => {
                    let failure = after(failure, &self.pool, &self.witness).await;
                    if let Err(error) = patience.wait(failure).await {
                        batch.drain(..).for_each(|waiting| reply(waiting, Err(error.clone())));
                    }
                }
            }
        }
    }

    /// Tries once. Answered appends leave the batch.
    async fn store(&self, batch: &mut Vec<Waiting>) -> Try<()> {
        let client = self.pool.get().await?;
        let packed: Vec<&Packed> = batch.iter().map(|waiting| &waiting.packed).collect();
        let known = self.witness.known();
        let written = bounded(write(&client, &known, &packed, None)).await?;
        if let Some(place) = written.place {
            self.witness.note(&known, place);
        }
        let (stored, refused): (Vec<_>, Vec<_>) =
            batch.drain(..).partition(|waiting| written.jobs.contains(&waiting.packed.append.job.as_uuid()));
        if !stored.is_empty() {
            self.wake.ring();
        }
        for waiting in stored {
            let append = &waiting.packed.append;
            if append.row.phase == PhaseName::Ended {
                self.wake.ended(append.job);
            }
            self.marks.lower(&append.row);
            let version = waiting.packed.version();
            reply(waiting, Ok(version));
        }
        if refused.is_empty() {
            return Ok(());
        }
        // These still wait for their answer.
        *batch = refused;
        let packed: Vec<&Packed> = batch.iter().map(|waiting| &waiting.packed).collect();
        let verdicts = bounded(settle(&client, &self.witness.known(), &packed)).await?;
        for (waiting, verdict) in std::mem::take(batch).into_iter().zip(verdicts) {
            match verdict {
                Ok(Verdict::Stored) => {
                    let version = waiting.packed.version();
                    reply(waiting, Ok(version));
                }
                Err(error) => reply(waiting, Err(error)),
                // The job changed between the two statements, so the append may be stored now.
                Ok(Verdict::Write) => batch.push(waiting),
            }
        }
        if batch.is_empty() { Ok(()) } else { Err(Failure::Clash("the job keeps changing".to_owned())) }
    }
}

fn reply(waiting: Waiting, answer: Result<Seq>) {
    // A caller that went away finds the answer in the log.
    let _ = waiting.answer.send(answer);
}

/// Takes the first append of every job, in the order of ids, so that two batches never deadlock on each other's rows; the
/// others keep their order.
fn one_per_job(waiting: Vec<Waiting>) -> (Vec<Waiting>, Vec<Waiting>) {
    let mut jobs: HashSet<JobId> = HashSet::with_capacity(waiting.len());
    let (mut batch, rest): (Vec<Waiting>, Vec<Waiting>) =
        waiting.into_iter().partition(|waiting| jobs.insert(waiting.packed.append.job));
    batch.sort_by_key(|waiting| waiting.packed.append.job);
    (batch, rest)
}
