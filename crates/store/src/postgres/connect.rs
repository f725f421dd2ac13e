//! Connections: how they are set up, and what a failure of one means.

use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::schema;
use crate::{Error, Result};

/// The first pause before another try; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(5);

/// The longest pause: a server that came back is found within this.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// How long one statement or connection may take. A server that holds on for longer counts as away.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What every session of a journal needs. A commit is answered when it is durable, whatever the server's default;
/// plans are made once, for few rows and through indexes, because tables grow faster than their statistics; a client
/// that vanished in mid-transaction lets go of its rows.
const SESSION: &str = "
    select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off';
    set default_transaction_isolation = 'read committed';
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set jit = off;
    set idle_in_transaction_session_timeout = '10s';
    set statement_timeout = '10s';
";

/// Why a try did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server is not there, or the connection broke; what was sent may have happened.
    Away(String),
    /// The server rolled back because of another transaction.
    Clash(String),
    /// Another try would fail in the same way.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let Some(db) = error.as_db_error() else { return Failure::Away(error.to_string()) };
        let text = format!("{} ({})", db.message(), db.code().code());
        let away = [
            &SqlState::ADMIN_SHUTDOWN,
            &SqlState::CRASH_SHUTDOWN,
            &SqlState::CANNOT_CONNECT_NOW,
            &SqlState::READ_ONLY_SQL_TRANSACTION,
            &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            &SqlState::QUERY_CANCELED,
        ];
        match db.code() {
            code if away.contains(&code) => Failure::Away(text),
            // Connections and resources: gone for now.
            code if code.code().starts_with("08") || code.code().starts_with("53") => Failure::Away(text),
            // Serialisation and deadlocks.
            code if code.code().starts_with("40") => Failure::Clash(text),
            _ => Failure::Final(Error::Corrupt(text)),
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Failure::Away(other.to_string()),
        }
    }
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Failure {
        Failure::Away(format!("no answer within {} s", ANSWER_MAX.as_secs()))
    }
}

/// Bounds one try. A connection that does not answer delays its next user for that long at most.
pub(super) async fn within<T>(
    attempt: impl Future<Output = std::result::Result<T, Failure>>,
) -> std::result::Result<T, Failure> {
    tokio::time::timeout(ANSWER_MAX, attempt).await?
}

/// Decides whether and when to try again.
#[derive(Debug)]
pub(super) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    /// Tries for about this long.
    pub(super) fn new(patience: Duration) -> Patience {
        Patience { until: Instant::now() + patience, pause: PAUSE }
    }

    /// Waits before another try, or returns the error that ends the trying.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<()> {
        let text = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Away(text) | Failure::Clash(text) => text,
        };
        if Instant::now() + self.pause > self.until {
            return Err(Error::Unavailable(text));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// Returns a pool of at most `size` connections, each set up and checked before its first use.
pub(super) fn pool(config: &Config, size: usize) -> Result<Pool> {
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), NoTls, manager);
    let set_up = Hook::async_fn(|client, _| {
        Box::pin(async move {
            set_up(client).await.map_err(|failure| match failure {
                Failure::Away(text) | Failure::Clash(text) => HookError::message(text),
                Failure::Final(error) => HookError::message(error.to_string()),
            })
        })
    });
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .create_timeout(Some(ANSWER_MAX))
        .wait_timeout(Some(ANSWER_MAX))
        .post_create(set_up)
        .build()
        .map_err(|error| Error::Unavailable(error.to_string()))
}

/// Sets a fresh connection up, and makes sure that the database behind it is the one it says it is.
async fn set_up(client: &Client) -> std::result::Result<(), Failure> {
    client.batch_execute(SESSION).await?;
    schema::recognise(client).await
}

/// Connects outside any pool; the connection ends with the client.
pub(super) async fn connect(config: &Config) -> std::result::Result<Client, Failure> {
    let (client, connection) = tokio::time::timeout(ANSWER_MAX, config.connect(NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}
