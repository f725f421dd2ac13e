//! The pool: what every session of a connection needs, and which database is behind it.

use std::sync::Arc;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Client, Config, NoTls};

use super::connect::DURABLE;
use super::failure::{Failure, Try};
use super::options::ANSWER_MAX;
use super::witness::Witness;
use crate::{Error, Result};

/// What a session needs besides durable commits. Plans are made once, for few rows and through indexes, because tables grow
/// faster than their statistics. A client that vanished in mid-transaction lets go of its rows.
const SESSION: &str = "
    set default_transaction_isolation = 'read committed';
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set jit = off;
    set idle_in_transaction_session_timeout = '10s';
    set statement_timeout = '10s';
";

/// Returns a pool of at most `size` connections, each set up and checked before its first use.
pub(super) fn pool(config: &Config, size: usize, witness: &Arc<Witness>) -> Result<Pool> {
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), NoTls, manager);
    let witness = Arc::clone(witness);
    let set_up = Hook::async_fn(move |client, _| {
        let witness = Arc::clone(&witness);
        Box::pin(async move {
            set_up(client, &witness).await.map_err(|failure| HookError::message(failure.to_string()))
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

/// Sets a new connection up, and looks which instance of the journal is behind it.
async fn set_up(client: &Client, witness: &Witness) -> Try<()> {
    client.batch_execute(DURABLE).await?;
    client.batch_execute(SESSION).await?;
    match witness.recognise(client).await {
        // Whatever is there can be read. A statement that writes does not find its journal, and says why.
        Err(Failure::Final(_)) => Ok(()),
        recognised => recognised,
    }
}
