//! Winding up: after a last word the environment goes, dependents are told, and the worktree is released. What fails is done again by a
//! later sweep.

use std::collections::HashSet;
use std::sync::Arc;

use lastword_core::{Job, JobId};
use lastword_store::Store;
use tokio::sync::mpsc;

use super::Worker;
use super::worktrees::keeps_worktree;

/// Winds up each ended job in a task of its own: git may take minutes.
pub(super) async fn run<J: Store>(worker: Arc<Worker<J>>, mut ended: mpsc::UnboundedReceiver<Job>) {
    while let Some(job) = ended.recv().await {
        let worker = Arc::clone(&worker);
        tokio::spawn(async move {
            match job.is_ended() {
                true => worker.wind_up(&job).await,
                false => worker.desk.end_children(&job).await,
            }
        });
    }
}

impl<J: Store> Worker<J> {
    async fn wind_up(&self, job: &Job) {
        let id = job.id;
        if let Err(error) = self.host.drop_env(id).await {
            self.leftovers.note_envs();
            let what = format!("cannot remove its environment: {error}");
            let next = "it is tried again; check the permissions of the state folder";
            self.desk.troubles.add(Some(id), what, next);
        }
        if let Some(last_word) = job.last_word().filter(|_| self.options.duties.is_clerk()) {
            self.desk.tell_dependents(id, last_word.outcome).await;
        }
        if let Some(keep) = keeps_worktree(job) {
            self.leave_worktree(id, keep).await;
        }
    }

    /// Removes the environments that no live job needs.
    pub(super) fn sweep_envs(self: &Arc<Self>, live: HashSet<JobId>) {
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = worker.host.sweep_envs(live).await {
                worker.leftovers.note_envs();
                let what = format!("cannot remove environments of ended jobs: {error}");
                let next = "check the permissions of the folder `jobs` in the state folder";
                worker.desk.troubles.add(None, what, next);
            }
        });
    }
}
