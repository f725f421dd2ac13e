//! Removed jobs: their files are removed on the hosts of the workers that are connected to this server.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::{JobId, OwnerId};
use lastword_link::Hosts;
use lastword_store::{Attempts as _, Removals, Result};
use tokio::sync::Notify;

/// How often a server looks for what was noted through another one, and for what a worker did not remove.
const INTERVAL: Duration = Duration::from_secs(60);

/// Notes read at once.
const PAGE: u32 = 500;

/// The notes of a journal. Those that this process makes are carried out at once.
#[derive(Clone)]
pub(super) struct Notes<R> {
    journal: R,
    hosts: Hosts,
    noted: Arc<Notify>,
}

impl<R: Removals> Notes<R> {
    /// Begins to have workers remove what is noted.
    pub(super) fn start(journal: R, hosts: Hosts) -> Notes<R> {
        let notes = Notes { journal, hosts, noted: Arc::default() };
        tokio::spawn(notes.clone().run());
        notes
    }

    async fn run(self) {
        loop {
            if let Err(error) = self.carry_out().await {
                tracing::warn!(%error, "which files workers have to remove cannot be read");
            }
            tokio::select! {
                () = self.noted.notified() => {}
                () = self.hosts.one_more() => {}
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Has workers remove everything that is noted. One that does not is left alone until later.
    async fn carry_out(&self) -> Result<()> {
        let mut workers = self.hosts.connected();
        loop {
            let noted = self.journal.removals(workers.clone(), PAGE).await?;
            let is_last = noted.len() < PAGE as usize;
            for (worker, job) in noted {
                if !workers.contains(&worker) {
                    continue;
                }
                if self.hosts.remove_files(worker.clone(), job).await {
                    self.journal.removed(worker, job).await?;
                } else {
                    tracing::warn!(%worker, %job, "the files of a removed job are still there");
                    workers.retain(|other| *other != worker);
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl<R: Removals> Removals for Notes<R> {
    async fn note_removal(&self, job: JobId, workers: Vec<OwnerId>) -> Result<()> {
        self.journal.note_removal(job, workers).await?;
        self.noted.notify_one();
        Ok(())
    }

    async fn removals(&self, workers: Vec<OwnerId>, limit: u32) -> Result<Vec<(OwnerId, JobId)>> {
        self.journal.removals(workers, limit).await
    }

    async fn removed(&self, worker: OwnerId, job: JobId) -> Result<()> {
        self.journal.removed(worker, job).await
    }
}
