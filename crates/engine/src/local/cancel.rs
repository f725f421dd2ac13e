//! A stop that lands although the journal cannot store it: the keeper of the tree notes the request and carries it out.

use std::time::Duration;

use lastword_core::decide::cancel::Cancel;
use lastword_core::{Job, JobId};
use lastword_store::{self as store, Store};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Engine;
use crate::Error;
use crate::mailbox::{Held, HeldStop};

/// How long the journal may take to store a stop. A tree that is to be stopped costs money meanwhile.
const STORED_MAX: Duration = Duration::from_secs(3);

/// What became of a request to stop a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is in the journal; the job after it.
    Stored(Box<Job>),
    /// The journal cannot store it now. The keeper holds it and stops the tree, and its receipt brings it to the journal.
    Held(Held),
}

impl<J: Store> Engine<J> {
    /// Returns the one job with a task here that has this id, short form or name: a journal that cannot be read finds none.
    pub fn find_running(&self, text: &str) -> Option<JobId> {
        match self.desk().agenda.tasks.find(text).as_slice() {
            [job] => Some(*job),
            _ => None,
        }
    }

    /// Asks for a job's end. If the journal cannot be used and the tree runs here, its keeper is told. Should the request be stored after
    /// all, it says the same.
    pub async fn cancel(&self, id: JobId, cancel: &Cancel) -> Result<Cancelled, Error> {
        let unusable = match timeout(STORED_MAX, self.desk().cancel(id, cancel)).await {
            Ok(Err(Error::Journal(error @ (store::Error::Unavailable(_) | store::Error::Corrupt(_))))) => {
                error
            }
            Ok(answer) => return answer.map(|job| Cancelled::Stored(Box::new(job))),
            Err(_) => store::Error::Unavailable(format!("no answer within {} s", STORED_MAX.as_secs())),
        };
        // Without a tree here there is nothing to stop, and without the journal none is started either.
        self.cancel_by_keeper(id, cancel.force).await.map(Cancelled::Held).ok_or_else(|| unusable.into())
    }

    /// Has the keeper of a job that runs here stop its tree, and hold the request; `None` if there is no such keeper.
    pub async fn cancel_by_keeper(&self, id: JobId, force: bool) -> Option<Held> {
        let (answer, held) = oneshot::channel();
        self.desk().agenda.tasks.hold_stop(id, HeldStop { force, answer });
        held.await.ok()
    }
}
