//! `submit`: a new job is stored, and claimed at once if a slot is free.

use std::sync::Arc;

use lastword_core::conversation::Carried;
use lastword_core::decide::{depend, family};
use lastword_core::spec::Spec;
use lastword_core::{Append, Job, JobId};
use lastword_store as store;
use lastword_store::Store;

use super::Engine;
use crate::worker::Worker;
use crate::{Env, Error};

impl<J: Store> Engine<J> {
    /// Submits a job. A repeated call with the same id and spec submits it once.
    pub async fn submit(&self, id: JobId, spec: Spec, env: Env, by: &str) -> Result<Job, Error> {
        self.submit_carrying(id, spec, env, by, None).await
    }

    /// Submits a job that takes over something from the job of its conversation before it.
    pub(super) async fn submit_carrying(
        &self,
        id: JobId,
        spec: Spec,
        env: Env,
        by: &str,
        carried: Option<Box<Carried>>,
    ) -> Result<Job, Error> {
        if self.worker.is_going_down() {
            return Err(Error::GoingDown);
        }
        let (worker, by) = (Arc::clone(&self.worker), by.to_owned());
        // A task of its own, so that a caller that goes away leaves nothing half done.
        let submitted =
            tokio::spawn(async move { worker.submit(id, Arc::new(spec), env, &by, carried).await });
        submitted.await.unwrap_or(Err(Error::GoingDown))
    }
}

impl<J: Store> Worker<J> {
    async fn submit(
        self: &Arc<Self>,
        id: JobId,
        spec: Arc<Spec>,
        env: Env,
        by: &str,
        carried: Option<Box<Carried>>,
    ) -> Result<Job, Error> {
        let desk = &self.desk;
        let job = desk.load(id).await?;
        let ancestors = desk.ancestors(&spec).await?;
        let spec = inherited(spec, &ancestors);
        let mut facts = desk.decide_submission(&job, &spec, by, carried.clone())?;
        if facts.is_empty() {
            return Ok(job);
        }
        let _in_use = self.hold_worktree(id, &spec).await?;
        desk.admit(id, &spec, &ancestors, by).await?;
        facts.extend(depend::at_submission(&spec, &desk.ended_dependencies(&spec).await?));
        desk.create_group(&spec.group).await?;
        self.host.keep_env(id, env).await.map_err(|source| Error::Disk {
            what: format!("cannot store the environment of {id}"),
            source,
        })?;
        let (append, after) = Append::new(&job, None, desk.append_id()?, desk.now().wall, facts)?;
        // Side by side: a launch reads the environment as it is, and the caller gets its answer when both are durable.
        let synced = async {
            if let Err(error) = self.host.sync_env(id).await {
                let what = format!("its environment may not survive a power cut: {error}");
                desk.troubles.add(
                    Some(id),
                    what,
                    "check the free disk space; if it is lost, the job says so",
                );
            }
        };
        let (stored, ()) = tokio::join!(self.append_and_take(append, &spec.group), synced);
        match stored {
            Ok(_) if after.due().is_some_and(|due| due <= desk.now().wall) => desk.changes.announce(id),
            Ok(_) => desk.wrote(&after),
            // The same job was submitted at the same time. It may have ended by now, so its environment is rechecked.
            Err(store::Error::Conflict { .. }) => {
                desk.agenda.recheck(id);
                let job = desk.load(id).await?;
                desk.decide_submission(&job, &spec, by, carried)?;
                return Ok(job);
            }
            Err(error) => {
                desk.agenda.recheck(id);
                return Err(error.into());
            }
        }
        desk.check_dependencies(&after).await;
        desk.check_parent(&after).await?;
        Ok(after)
    }
}

/// Returns a spec with what the agents above it deny.
fn inherited(spec: Arc<Spec>, ancestors: &[Job]) -> Arc<Spec> {
    if ancestors.is_empty() {
        return spec;
    }
    let mut own = Spec::clone(&spec);
    ancestors.iter().for_each(|above| family::inherit(above, &mut own));
    if own == *spec { spec } else { Arc::new(own) }
}
