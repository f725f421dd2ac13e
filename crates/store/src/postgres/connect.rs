//! Connections, statements, and how long a call is tried.

use std::time::{Duration, Instant};

use deadpool_postgres::Pool;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls};

use super::failure::{Failure, Try};
use super::options::ANSWER_MAX;
use super::witness::Witness;
use crate::{Error, Result};

/// The first pause before another try; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(5);

/// The longest pause: a server that came back is found within this.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Commits are acknowledged when they are durable, on synchronous standbys too, whatever the defaults of server, database and role are.
/// `remote_apply` waits for more, and stays.
pub(super) const DURABLE: &str = "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') <> 'remote_apply'";

/// A parameter of a statement.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// Connects outside any pool; the connection ends with the client.
pub(super) async fn connect(config: &Config) -> Try<Client> {
    let (client, connection) = tokio::time::timeout(ANSWER_MAX, config.connect(NoTls)).await??;
    tokio::spawn(connection);
    client.batch_execute(DURABLE).await?;
    Ok(client)
}

/// Returns a configuration under which a connection that leads nowhere ends by itself. What the address says stays.
pub(super) fn attentive(mut config: Config) -> Config {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(ANSWER_MAX);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(ANSWER_MAX).keepalives_interval(ANSWER_MAX / 2).keepalives_retries(2);
    }
    config
}

/// Runs a statement and returns its rows.
pub(super) async fn query(pool: &Pool, sql: &str, values: &[Value<'_>]) -> Try<Vec<tokio_postgres::Row>> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, values).await?)
}

/// Runs a statement that begins with [`with_here`](super::identity::with_here), whose parameters come last. The first column of its first
/// row says whether this is the journal that was opened; if not, it has changed nothing.
pub(super) async fn change(
    pool: &Pool,
    witness: &Witness,
    sql: &str,
    values: &[Value<'_>],
) -> Try<Vec<tokio_postgres::Row>> {
    let client = pool.get().await?;
    let known = witness.known();
    let here: [Value<'_>; 2] = [&known.identity, &known.newest];
    let values: Vec<Value<'_>> = values.iter().copied().chain(here).collect();
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &values).await?;
    match rows.first().is_some_and(|row| row.get(0)) {
        true => Ok(rows),
        false => Err(Failure::Moved),
    }
}

/// Tries until it succeeds, fails for good, or `patience` is over. It must be safe to repeat.
pub(super) async fn patiently<T, F: Future<Output = Try<T>>>(
    patience: Duration,
    attempt: impl Fn() -> F,
) -> Result<T> {
    let mut patience = Patience::new(patience);
    loop {
        match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failure) => patience.wait(failure).await?,
        }
    }
}

/// Waits for an answer, but not for ever.
pub(super) async fn bounded<T>(attempt: impl Future<Output = Try<T>>) -> Try<T> {
    tokio::time::timeout(ANSWER_MAX, attempt).await.unwrap_or_else(|elapsed| Err(elapsed.into()))
}

/// Leaves what a failed try has shown to be of no use, and looks which journal is there if it did not find its own. Returns why the call
/// is to be tried again, or not.
pub(super) async fn after(failure: Failure, pool: &Pool, witness: &Witness) -> Failure {
    failure.leave(pool);
    if failure != Failure::Moved {
        return failure;
    }
    let look = async {
        let client = pool.get().await?;
        witness.recognise(&client).await
    };
    bounded(look).await.err().unwrap_or(failure)
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

    /// Waits before another try, or returns the error that ends the tries.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<()> {
        let text = match failure {
            Failure::Final(error) => return Err(error),
            other => other.to_string(),
        };
        if Instant::now() + self.pause > self.until {
            return Err(Error::Unavailable(text));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}
