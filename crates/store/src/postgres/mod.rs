//! The store in PostgreSQL, for a fleet: many processes, one truth.
//!
//! | file | owns |
//! |---|---|
//! | `connect` | connections, and how often a call is tried |
//! | `pool` | what every session of a connection needs |
//! | `failure` | what an error of the server means |
//! | `options` | how the server is used |
//! | `witness` | whether this is still the journal that was opened |
//! | `identity` | what names the journal in a statement |
//! | `instance` | whether the server may have lost something: then a new instance begins |
//! | `pause` | the present instance, and the end of its pause |
//! | `schema` | tables and partitions |
//! | `month` | which partition an event is in |
//! | `batch` | the one statement that stores appends, and why one was not stored |
//! | `append` | the queue before it |
//! | `claim` | taking jobs, ready or left behind |
//! | `slots` | how many jobs of a group are held |
//! | `lives` | lives of owners |
//! | `renewals` | their renewals, many at a time, and with them reads of all beats |
//! | `feed` | the feed over all jobs |
//! | `view` | reading logs and rows |
//! | `waits` | which job waits for which |
//! | `catalog`, `groups`, `keys` | the other three traits |
//! | `enrolments` | workers and their tokens |
//! | `wake` | hints after a commit |
//!
//! Rules are in `core` and in [`crate::admit`]; the SQL here says the same and is held to it by the conformance suite.

mod append;
mod batch;
mod catalog;
mod claim;
mod connect;
mod enrolments;
mod failure;
mod feed;
mod groups;
mod identity;
mod instance;
mod keys;
mod list;
mod lives;
mod month;
mod options;
mod pause;
mod pool;
mod ready;
mod removals;
mod renewals;
mod schema;
mod slots;
mod view;
mod waits;
mod wake;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use lastword_core::life::Life;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use tokio::sync::{Mutex, oneshot};
use tokio_postgres::Config;

use self::append::Appender;
use self::claim::Marks;
use self::connect::{after, attentive, bounded, patiently};
use self::failure::Try;
use self::renewals::Renewals;
use self::wake::Wake;
use self::witness::Witness;
use crate::hints::Hints;
use crate::{
    Beats, Behind, Claim, Claimed, Cursor, Error, Feed, Instance, Journal, Ready, Renew, Renewed, Result,
    WaitOver,
};

pub use self::batch::{STATEMENT, settle_statement};
pub use self::claim::claim_statements;
pub use self::identity::IDENTITY;
pub use self::options::{Clock, Options};
pub use self::view::load_statement;

/// A renewal waits for others for this part of its lease at most. A worker sends the next one after a third of it: when that one meets a
/// server that is gone, what is left is enough to find out, to connect to another, and to wait there once more.
const GATHERINGS_PER_LEASE: u64 = 7;

/// The store in PostgreSQL. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    readers: Pool,
    appender: Appender,
    marks: Arc<Marks>,
    wake: Arc<Wake>,
    witness: Arc<Witness>,
    clock: Clock,
    renewals: Renewals,
    /// How long a renewal waits for others.
    gather: Duration,
    patience: Duration,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens the journal in the database that `url` names (`host=/run/postgresql dbname=lastword`, or a URL), and
    /// makes its tables if there are none.
    pub async fn open(url: &str, options: Options) -> Result<Postgres> {
        let config: Config = url.parse().map_err(|error| {
            Error::Unavailable(format!("the address of the database does not read: {error}"))
        })?;
        let config = attentive(config);
        let witness = patiently(options.patience, || bounded(schema::prepare(&config, &options))).await?;
        let witness = Arc::new(witness);
        let readers = pool::pool(&config, options.readers, &witness)?;
        let writers = pool::pool(&config, options.writers, &witness)?;
        let wake = Arc::new(Wake::new());
        if options.wake {
            wake.start(config, readers.clone());
        }
        let marks = Arc::new(Marks::default());
        let appender = Appender::start(writers, &options, &marks, &wake, &witness);
        let Options { clock, patience, gather, .. } = options;
        let renewals = Renewals::default();
        Ok(Postgres(Arc::new(Inner {
            readers,
            appender,
            marks,
            wake,
            witness,
            clock,
            renewals,
            gather,
            patience,
        })))
    }

    /// Returns how far the journal had been when it was last open, if it has been deleted or rolled back since. Known only with
    /// [`Options::remember`].
    pub fn behind(&self) -> Option<Behind> {
        self.0.witness.behind()
    }

    /// Returns the name of the journal, which stays over failovers and restores.
    pub fn name(&self) -> String {
        self.0.witness.journal().to_string()
    }

    /// Creates the partitions for jobs of this month and the next ones. Opening does it; a process that runs for months
    /// repeats it. A job without a partition for its month goes to a common one.
    pub async fn prepare_months(&self, now: Timestamp) -> Result<()> {
        self.patiently(|| async { schema::months(&*self.0.readers.get().await?, now).await }).await
    }

    /// Fails if the slots of a group were miscounted. No run of the program needs it: tests ask.
    pub async fn check_counts(&self) -> Result<()> {
        self.patiently(|| slots::check_counts(&self.0.readers)).await
    }

    /// Waits for more renewals and reads of beats, and answers all of them. In a task of its own: the caller of the first may give up.
    async fn renew_gathered(self) {
        let batch = self.0.renewals.take().await;
        let answers = self.patiently(|| batch.write(&self.0.readers, &self.0.witness)).await;
        batch.answer(answers);
    }

    /// Waits for an answer of what is gathered. The first that waits sees to it.
    async fn gathered<T>(&self, answered: oneshot::Receiver<Result<T>>, is_first: bool) -> Result<T> {
        if is_first {
            tokio::spawn(self.clone().renew_gathered());
        }
        answered.await.unwrap_or_else(|_| Err(Error::Unavailable("the journal was closed".to_owned())))
    }

    /// Tries until it succeeds, fails for good, or patience is over.
    async fn patiently<T, F: Future<Output = Try<T>>>(&self, attempt: impl Fn() -> F) -> Result<T> {
        let attempt = || async {
            match bounded(attempt()).await {
                Err(failure) => Err(after(failure, &self.0.readers, &self.0.witness).await),
                answered => answered,
            }
        };
        patiently(self.0.patience, attempt).await
    }
}

impl Journal for Postgres {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        self.patiently(|| view::load(&self.0.readers, &self.0.witness, job, after)).await
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        self.0.appender.append(append).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        // What a try may have taken before its answer was lost, for the next try.
        let unsure = Mutex::new(Vec::new());
        let claimed = self.patiently(|| async {
            let known = (&*self.0.marks, &*self.0.witness, self.0.clock);
            claim::claim(&self.0.readers, known, &claim, &mut *unsure.lock().await).await
        });
        let claimed = claimed.await?;
        if !claimed.is_empty() {
            self.0.wake.ring();
        }
        Ok(claimed)
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        if renew.incarnation.is_none() {
            return self.patiently(|| lives::register(&self.0.readers, &self.0.witness, &renew)).await;
        }
        // A short lease cannot wait for long.
        let gather = self.0.gather.min(Duration::from_millis(renew.lease_ms / GATHERINGS_PER_LEASE));
        let (answered, is_first) = self.0.renewals.put(renew, gather);
        self.gathered(answered, is_first).await
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        self.patiently(|| lives::lives(&self.0.readers)).await
    }

    async fn beats(&self, within: Duration) -> Result<Beats> {
        let (answered, is_first) = self.0.renewals.put_read(within);
        self.gathered(answered, is_first).await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.patiently(|| lives::end_life(&self.0.readers, &self.0.witness, life, beat)).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        self.patiently(|| view::held(&self.0.readers, by, after, limit)).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.patiently(|| feed::feed(&self.0.readers, after.as_ref(), limit)).await
    }

    async fn feed_end(&self) -> Result<Option<Cursor>> {
        self.patiently(|| feed::feed_end(&self.0.readers)).await
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.patiently(|| waits::dependents(&self.0.readers, other)).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.patiently(|| waits::waits_over(&self.0.readers, after, limit)).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.patiently(|| ready::ready(&self.0.readers, self.0.clock, now)).await
    }

    async fn instance(&self) -> Result<Instance> {
        self.patiently(|| pause::instance(&self.0.readers)).await
    }

    fn instance_seen(&self) -> Option<u64> {
        Some(self.0.witness.instance())
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        let settled = self.patiently(|| pause::settle(&self.0.readers, &self.0.witness, &instance)).await?;
        // Jobs can be claimed from now on.
        self.0.wake.ring();
        Ok(settled)
    }

    fn hints(&self) -> Hints {
        self.0.wake.hints()
    }
}
