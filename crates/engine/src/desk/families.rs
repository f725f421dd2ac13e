//! Families: jobs that processes of other jobs submit. The parent's log names each child before the child is submitted, so that no crash
//! leaves one that its parent does not know.

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::family;
use lastword_core::outcome::Asked;
use lastword_core::spec::Spec;
use lastword_core::{Job, JobId};
use lastword_store::{self as store, Store};

use super::Desk;
use crate::Error;

/// How long a submission may take. A child that is not there after that was never submitted.
pub(super) const SUBMITTED_MS: u64 = 60_000;

impl<J: Store> Desk<J> {
    /// Returns the job in which a new one is submitted, and those above it.
    pub(crate) async fn ancestors(&self, spec: &Spec) -> Result<Vec<Job>, Error> {
        let (mut ancestors, mut next) = (Vec::new(), spec.parent);
        while let Some(id) = next.filter(|_| ancestors.len() <= family::DEPTH_MAX) {
            let job = self.load(id).await?;
            next = job.spec.as_ref().and_then(|spec| spec.parent);
            ancestors.push(job);
        }
        Ok(ancestors)
    }

    /// Stores in the log of its parent that a job is submitted from inside it, unless that is refused.
    pub(crate) async fn admit(
        &self,
        id: JobId,
        spec: &Spec,
        ancestors: &[Job],
        by: &str,
    ) -> Result<(), Error> {
        let (Some((parent, above)), Some(top)) = (ancestors.split_first(), ancestors.last()) else {
            return Ok(());
        };
        let live = self.live_below(top).await?;
        self.request(parent.id, None, |job| family::admit(job, above, live, by, id, spec)).await?;
        Ok(())
    }

    /// Counts the jobs below one that have not ended.
    async fn live_below(&self, top: &Job) -> Result<usize, Error> {
        let (mut count, mut next) = (0, top.children.clone());
        while let Some(child) = next.pop().filter(|_| count < family::LIVE_MAX) {
            count += 1;
            // One whose submission follows has no children yet.
            if let Ok(job) = self.load(child.job).await {
                next.extend(&job.children);
            }
        }
        Ok(count)
    }

    /// Ends a job that was submitted while its parent was about to end.
    pub(crate) async fn check_parent(&self, job: &Job) -> Result<(), Error> {
        let Some(spec) = job.spec.as_ref().filter(|spec| spec.tied) else { return Ok(()) };
        let Some(parent) = spec.parent else { return Ok(()) };
        let above = self.load(parent).await?;
        let is_known = above.children.iter().any(|child| child.job == job.id);
        if above.is_ended() || !is_known || above.ends_children() {
            self.end_child(&above, job.id).await?;
        }
        Ok(())
    }

    /// Asks each job that is tied to one for its end, if they must end. A failure is tried again.
    pub(crate) async fn end_children(&self, job: &Job) {
        let tied = if job.ends_children() { job.tied().collect() } else { Vec::new() };
        for child in tied {
            match self.end_child(job, child.job).await {
                // Its submission follows, and looks at the parent.
                Ok(()) | Err(Error::Refused(lastword_core::decide::Refusal::NotFound(_))) => {}
                Err(error) => {
                    self.agenda.recheck(job.id);
                    let what =
                        format!("{} was to end with it, and could not be asked to: {error}", child.job);
                    self.troubles.add(Some(job.id), what, "it is tried again");
                }
            }
        }
    }

    async fn end_child(&self, parent: &Job, child: JobId) -> Result<(), Error> {
        let force = parent.stop.as_ref().is_some_and(|stop| stop.force);
        let cancel = Cancel { by: parent.called(), asked: Asked::ParentGone, force };
        self.request(child, None, |job| cancel::decide(job, &cancel, self.now().wall)).await?;
        Ok(())
    }

    /// Looks at jobs with children after a crash: those that must end are asked to, and those that ended are told of.
    pub(crate) async fn check_families(&self) -> Result<(), store::Error> {
        for row in self.live_rows().await?.iter().filter(|row| row.summary.children > 0) {
            if let Ok(job) = self.load(row.job).await {
                self.check_dependencies(&job).await;
                self.end_children(&job).await;
            }
        }
        Ok(())
    }
}
