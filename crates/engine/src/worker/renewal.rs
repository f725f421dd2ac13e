//! Renews the lease of the present life, in a task of its own: whatever else waits for the journal, a renewal does not wait behind it.

use std::sync::Arc;
use std::time::Duration;

use lastword_store::{Error, Store};
use tokio::time::{Instant, sleep_until};

use super::Worker;
use crate::lock::lock;

/// Pause after a renewal that was not answered.
const RETRY: Duration = Duration::from_millis(500);

/// Runs until the engine is dropped.
pub(super) async fn run<J: Store>(worker: Arc<Worker<J>>) {
    let mut retry = None;
    loop {
        let due = lock(&worker.life).as_ref().map(|present| present.sent + worker.options.lease() / 3);
        let registered = worker.registered.notified();
        match due.map(|due| retry.take().map_or(due, |retry: Instant| retry.max(due))) {
            None => registered.await,
            Some(at) => {
                tokio::select! {
                    () = registered => {}
                    () = sleep_until(at) => retry = renew(&worker).await,
                }
            }
        }
    }
}

/// Renews the lease. Returns when to try again, if there was no answer.
async fn renew<J: Store>(worker: &Worker<J>) -> Option<Instant> {
    let life = worker.life()?;
    let renewed = match worker.has_run_out() {
        false => worker.renew(Some(life.incarnation)).await,
        true => Err(Error::Lapsed { owner: life.owner }),
    };
    match renewed {
        Ok(()) => None,
        Err(Error::Lapsed { .. }) => {
            worker.note_lapsed();
            Some(Instant::now() + RETRY)
        }
        Err(error) => {
            worker.desk.troubles.journal(None, "its lease cannot be renewed", &error);
            Some(Instant::now() + RETRY)
        }
    }
}
