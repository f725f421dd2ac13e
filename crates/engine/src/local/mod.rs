//! A laptop: desk, worker and host in one process. The verbs here need more than a desk: files of the host, or deaths the worker has seen.

mod cancel;
mod changes;
mod feed;
mod reads;
mod remove;
mod resume;
mod submit;

use std::sync::Arc;

use lastword_core::Job;
use lastword_store::Store;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::agenda::Agenda;
use crate::desk::Desk;
use crate::host::Host;
use crate::worker::Worker;
use crate::{Error, Jobs, Options};

pub use cancel::Cancelled;
pub use feed::FeedFilter;

/// A running engine. Dropping the last handle stops it at once; running trees stay alive.
#[derive(Debug)]
pub struct Engine<J> {
    worker: Arc<Worker<J>>,
    running: Arc<Running<J>>,
}

impl<J> Clone for Engine<J> {
    fn clone(&self) -> Engine<J> {
        Engine { worker: Arc::clone(&self.worker), running: Arc::clone(&self.running) }
    }
}

impl<J: Store> Engine<J> {
    /// Starts an engine on the caller's runtime.
    pub fn start(journal: J, host: impl Host, options: Options) -> Engine<J> {
        let host: Arc<dyn Host> = Arc::new(host);
        let (agenda, ended): (Agenda, mpsc::UnboundedReceiver<Job>) = Agenda::new();
        let desk = Desk::new(journal, Arc::clone(&host) as _, Arc::new(agenda), &options);
        let worker = Arc::new(Worker::new(Arc::new(desk), host, options));
        let tasks = worker.spawn(ended);
        let running = Running { worker: Arc::clone(&worker), tasks };
        Engine { worker, running: Arc::new(running) }
    }

    /// Returns the desk: requests, groups, references and everything else that needs a journal alone.
    pub fn desk(&self) -> &Arc<Desk<J>> {
        &self.worker.desk
    }

    /// Shuts down. Returns once nothing more is written; with [`Jobs::Cancel`], once every job has its last word. A shutdown that keeps jobs can
    /// still be turned into one that cancels them until this has returned.
    pub async fn shut_down(&self, jobs: Jobs) -> Result<(), Error> {
        self.worker.shut_down(jobs).await
    }
}

/// What ends with the last handle.
#[derive(Debug)]
struct Running<J> {
    worker: Arc<Worker<J>>,
    tasks: [AbortHandle; 5],
}

impl<J> Drop for Running<J> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.worker.desk.agenda.tasks.abort_all();
    }
}
