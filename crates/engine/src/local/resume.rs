//! `resume` and `retry`: a new job goes on where an ended one stopped. Of a conversation that is its newest job, whichever was named.

use lastword_core::decide::resume::How;
use lastword_core::decide::{Refusal, resume, retry};
use lastword_core::spec::Spec;
use lastword_core::{Job, JobId, OwnerId};
use lastword_store::Store;

use super::Engine;
use crate::{Env, Error};

impl<J: Store> Engine<J> {
    /// Runs an ended job again, as a new one under a given id. A repeated call with the same id submits it once.
    pub async fn retry_as(&self, new: JobId, id: JobId, env: Env, by: &str) -> Result<Job, Error> {
        let desk = self.desk();
        let job = desk.load(id).await?;
        let newest = desk.newest_of(&job).await?;
        let spec = retry::decide(&job, &newest)?;
        self.go_on(new, &newest, spec, env, by).await
    }

    /// Continues the conversation of a job, or a copy of it, under a given id. A repeated call with the same id submits it once.
    pub async fn resume_as(
        &self,
        new: JobId,
        id: JobId,
        (prompt, how): (&str, How),
        env: Env,
        by: &str,
    ) -> Result<Job, Error> {
        let job = self.desk().load(id).await?;
        let job = if how.fork { job } else { self.desk().newest_of(&job).await? };
        let worktree = self.worktree(job.id).filter(|path| path.is_dir());
        let worktree = worktree.as_deref().and_then(std::path::Path::to_str);
        let spec = resume::decide(&job, prompt, worktree, how)?;
        self.go_on(new, &job, spec, env, by).await
    }

    /// Returns the worker that must run a job: agents keep their sessions in files, which are on the host that ran the job before.
    fn holder_of_session<'a>(&self, before: &'a Job, spec: &Spec) -> Option<&'a OwnerId> {
        let is_bound = !self.desk().journal().is_shared() || spec.on.worker().is_some();
        let attempt = before.attempts.iter().rev().find(|attempt| attempt.tree.is_some());
        attempt
            .map(|attempt| &attempt.owner)
            .filter(|_| !is_bound && (spec.resume.is_some() || spec.conversation.is_some()))
    }

    /// Submits a job that follows another one, if its spec says so. The job before records it first, so that only one can follow.
    async fn go_on(
        &self,
        new: JobId,
        before: &Job,
        mut spec: Spec,
        env: Env,
        by: &str,
    ) -> Result<Job, Error> {
        if let Some(worker) = self.holder_of_session(before, &spec) {
            spec.on = spec.on.with_worker(worker);
        }
        if spec.conversation.is_none() {
            return self.submit(new, spec, env, by).await;
        }
        let desk = self.desk();
        let carried = Some(Box::new(before.carries()));
        // What would be refused leaves no trace.
        desk.check_submission(new, &spec, by, carried.clone())?;
        let new = match desk.request(before.id, None, |job| resume::follow(job, by, new)).await {
            Ok(_) => new,
            // A request that was interrupted before it submitted the job that follows: this one takes its place.
            Err(Error::Refused(Refusal::Continued(_, follows))) if desk.row(follows).await?.is_none() => {
                follows
            }
            Err(error) => return Err(error),
        };
        let submitted = self.submit_carrying(new, spec, env, by, carried).await;
        if matches!(submitted, Err(Error::Refused(_) | Error::Disk { .. })) && desk.row(new).await?.is_none()
        {
            desk.request(before.id, None, |job| resume::unfollow(job, by, new)).await?;
        }
        submitted
    }
}
