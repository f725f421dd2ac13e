//! The journal in PostgreSQL, for a fleet: many processes, one truth.
//!
//! | file | owns |
//! |---|---|
//! | `connect` | connections, and what to do when one fails |
//! | `schema` | tables, partitions, and which database this is |
//! | `batch` | the one statement that stores appends, and why one was not stored |
//! | `append` | the queue before it |
//! | `claim` | taking jobs, ready or left behind |
//! | `lease` | owners and their leases |
//! | `view`, `feed` | reading |
//! | `siblings` | what is remembered beside the logs |
//! | `wake` | hints after a commit |
//!
//! Rules are in `core` and in [`crate::admit`]; the SQL here says the same and is held to it by the conformance suite.

mod append;
mod batch;
mod claim;
mod connect;
mod feed;
mod lease;
mod schema;
mod siblings;
mod view;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use lastword_core::{Append, Event, JobId, Seq, Timestamp};
use tokio_postgres::Config;

use self::append::Appender;
use self::claim::Marks;
use self::connect::{Failure, Patience, within};
use self::wake::Wake;
use crate::hints::Hints;
use crate::{Claim, Claimed, Error, Journal, Page, Read, Renew, Renewed, Result};

pub use self::batch::STATEMENT;
pub use self::claim::CLAIM;

/// How a journal uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections that store appends. Two keep the server busy while one waits for its flush.
    pub writers: usize,
    /// Connections for everything else.
    pub readers: usize,
    /// Appends in one statement, at most.
    pub batch_max: usize,
    /// Whether commits wake other processes.
    pub wake: bool,
    /// How long a verb goes on trying before it says that the server is away.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            writers: 2,
            readers: 4,
            // Beyond this a batch gains nothing measurable and only delays its first answer.
            batch_max: 500,
            wake: true,
            // Longer than PostgreSQL takes to recover from a crash, shorter than the patience of a person.
            patience: Duration::from_secs(15),
        }
    }
}

/// The journal in PostgreSQL. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    readers: Pool,
    appender: Appender,
    marks: Arc<Marks>,
    wake: Arc<Wake>,
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
        let mut patience = Patience::new(options.patience);
        while let Err(failure) = within(schema::prepare(&config)).await {
            patience.wait(failure).await?;
        }
        let readers = connect::pool(&config, options.readers)?;
        let writers = connect::pool(&config, options.writers)?;
        let wake = Arc::new(Wake::new());
        if options.wake {
            wake.start(config, readers.clone());
        }
        let marks = Arc::new(Marks::default());
        let appender = Appender::start(writers, &options, Arc::clone(&marks), Arc::clone(&wake));
        Ok(Postgres(Arc::new(Inner { readers, appender, marks, wake, patience: options.patience })))
    }

    /// Returns hints that something was committed, by this process or another. All of them may get lost: whoever
    /// waits also looks now and then by itself.
    pub fn hints(&self) -> Hints {
        self.0.wake.hints()
    }

    /// Makes the partitions for jobs of this month and the next ones. Opening does it; a process that runs for months
    /// repeats it. Jobs that find no partition of their own are kept all the same.
    pub async fn prepare_months(&self, now: Timestamp) -> Result<()> {
        let mut patience = Patience::new(self.0.patience);
        loop {
            match within(self.try_prepare_months(now)).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn try_prepare_months(&self, now: Timestamp) -> std::result::Result<(), Failure> {
        let client = self.0.readers.get().await?;
        schema::months(&client, now).await
    }

    async fn try_read(&self, read: &Read) -> std::result::Result<Page, Failure> {
        let pool = &self.0.readers;
        match read {
            Read::Row(job) => view::row(pool, *job).await,
            Read::Rows { filter, before, limit } => view::rows(pool, filter, *before, *limit).await,
            Read::Feed { after, limit } => feed::feed(pool, after.as_ref(), *limit).await,
        }
    }
}

impl Journal for Postgres {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        let mut patience = Patience::new(self.0.patience);
        loop {
            match within(view::load(&self.0.readers, job, after)).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(events) => return Ok(events),
            }
        }
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        self.0.appender.append(append).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let mut patience = Patience::new(self.0.patience);
        let mut unsure = Vec::new();
        loop {
            match within(claim::claim(&self.0.readers, &self.0.marks, &claim, &mut unsure)).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(claimed) => {
                    if !claimed.is_empty() {
                        self.0.wake.ring();
                    }
                    return Ok(claimed);
                }
            }
        }
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let mut patience = Patience::new(self.0.patience);
        loop {
            match within(lease::renew(&self.0.readers, &renew)).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(renewed) => return Ok(renewed),
            }
        }
    }

    async fn read(&self, read: Read) -> Result<Page> {
        let mut patience = Patience::new(self.0.patience);
        loop {
            match within(self.try_read(&read)).await {
                Err(failure) => patience.wait(failure).await?,
                Ok(page) => return Ok(page),
            }
        }
    }
}
