//! `submit`, and `retry` and `resume`, which are one: a job is asked for, stored, and taken at once if it may be.

use std::sync::Arc;

use lastword_core::decide::{Refusal, resume, retry, submit};
use lastword_core::spec::Spec;
use lastword_core::{Append, Job, JobId};
use lastword_store::siblings::Siblings;
use lastword_store::{self as store, Read};

use crate::shared::Shared;
use crate::{Engine, Env, Error};

impl<J: Siblings> Engine<J> {
    /// Asks for a job. Asking again with the same id and spec is asking once.
    pub async fn submit(&self, id: JobId, spec: Spec, env: Env, by: &str) -> Result<Job, Error> {
        if *self.shared.going_down.borrow() {
            return Err(Error::GoingDown);
        }
        let (shared, by) = (Arc::clone(&self.shared), by.to_owned());
        // By itself, so that a caller who goes away leaves nothing half done.
        let submitted = tokio::spawn(async move { shared.submit(id, Arc::new(spec), env, &by).await });
        submitted.await.unwrap_or(Err(Error::GoingDown))
    }

    /// Tries an ended job again, as a new one.
    pub async fn retry(&self, id: JobId, env: Env, by: &str) -> Result<Job, Error> {
        self.retry_as(self.new_id()?, id, env, by).await
    }

    /// Tries an ended job again, as one of this id. Asking again with the same id is asking once.
    pub async fn retry_as(&self, new: JobId, id: JobId, env: Env, by: &str) -> Result<Job, Error> {
        let spec = retry::decide(&self.shared.load(id).await?)?;
        self.submit(new, spec, env, by).await
    }

    /// Goes on with the conversation of an ended job, or with a copy of it, as one of this id. Asking again with the same id is asking once.
    pub async fn resume_as(
        &self,
        new: JobId,
        id: JobId,
        (prompt, fork): (&str, bool),
        env: Env,
        by: &str,
    ) -> Result<Job, Error> {
        let worktree = self.shared.trees.worktree(id).filter(|path| path.is_dir());
        let worktree = worktree.as_deref().and_then(std::path::Path::to_str);
        let spec = resume::decide(&self.shared.load(id).await?, prompt, worktree, fork)?;
        self.submit(new, spec, env, by).await
    }
}

impl<J: Siblings> Shared<J> {
    async fn submit(self: &Arc<Self>, id: JobId, spec: Arc<Spec>, env: Env, by: &str) -> Result<Job, Error> {
        let job = self.load(id).await?;
        let facts = submit::decide(&job, &spec, by, self.options.limits)?;
        if facts.is_empty() {
            return Ok(job);
        }
        let _in_use = self.hold_worktree(id, &spec).await?;
        self.know_all(&spec).await?;
        self.have_group(&spec.group).await?;
        self.trees.keep_env(id, env).await.map_err(|source| Error::Disk {
            what: format!("the environment of {id} cannot be kept"),
            source,
        })?;
        let (append, after) = Append::new(&job, None, self.append_id()?, self.now().wall, facts)?;
        // Side by side: what starts the job reads its environment as it is, and whoever asked is answered when both are durable.
        let settled = async {
            if let Err(error) = self.trees.settle_env(id).await {
                let what = format!("its environment may not survive a power cut: {error}");
                self.trouble(Some(id), what, "look for room on the disk; if it is lost, the job says so");
            }
        };
        let (stored, ()) = tokio::join!(self.append_and_take(append, &spec.group), settled);
        match stored {
            Ok(_) if after.due().is_some_and(|due| due <= self.now().wall) => self.changed(id),
            Ok(_) => self.wrote(&after),
            // Somebody asked for the same at the same time. It may have ended by now, and then its environment was kept in vain.
            Err(store::Error::Conflict { .. }) => {
                self.look_again(id);
                return self.submitted_before(id, &spec, by).await;
            }
            Err(error) => {
                self.look_again(id);
                return Err(error.into());
            }
        }
        self.watch_dependencies(&after).await;
        Ok(after)
    }

    /// Refuses to wait for a job that nobody knows.
    async fn know_all(&self, spec: &Spec) -> Result<(), Error> {
        for dependency in &spec.after {
            if self.journal.read(Read::Row(dependency.job)).await?.rows().is_empty() {
                return Err(Refusal::NotFound(dependency.job).into());
            }
        }
        Ok(())
    }

    async fn submitted_before(&self, id: JobId, spec: &Arc<Spec>, by: &str) -> Result<Job, Error> {
        let job = self.load(id).await?;
        submit::decide(&job, spec, by, self.options.limits)?;
        Ok(job)
    }

    /// Notes which jobs a stored job waits for, then checks each of them. A dependency that ends after the note finds the note; one
    /// that ended before it is found by the check. The job must be stored first: telling an unstored job drops its note.
    pub(crate) async fn watch_dependencies(self: &Arc<Self>, job: &Job) {
        self.dependents.add(job);
        for dependency in &job.unmet {
            self.look_at_awaited(dependency.job).await;
        }
    }

    /// Tells those who wait for a job, if it has ended.
    pub(crate) async fn look_at_awaited(self: &Arc<Self>, other: JobId) {
        match self.journal.read(Read::Row(other)).await.map(|page| page.rows().pop()) {
            Ok(Some(row)) => {
                if let Some(outcome) = row.outcome {
                    self.tell_dependents(other, outcome).await;
                }
            }
            // It was removed; only what has ended can be, but how it ended nobody can say any more.
            Ok(None) => self.tell_dependents(other, lastword_core::outcome::Outcome::Lost).await,
            Err(error) => self.journal_trouble(None, "jobs that wait for others cannot be looked at", &error),
        }
    }
}
