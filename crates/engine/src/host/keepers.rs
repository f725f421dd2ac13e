//! Real keepers: which effect is carried out by which call.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use lastword_core::effects::Effect;
use lastword_core::ids::Incarnation;
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, JobId, Timestamp};
use lastword_proc::{self as proc, boot_id};

use super::local::LocalHost;
use super::locate::KnownAttempt;
use super::session::{AgentSession, exit_of};
use super::traits::{BoxFuture, Keepers, LastWritten, Order};
use crate::mailbox::Reports;

impl Keepers for LocalHost {
    fn boot(&self) -> Arc<str> {
        boot_id().into()
    }

    fn hold_stop(&self, order: Order) -> BoxFuture<Result<bool, String>> {
        let host = self.clone();
        Box::pin(async move { LocalHost::hold_stop(&host, order).await })
    }

    fn perform(&self, order: Order, reports: Reports) -> BoxFuture<Result<(), String>> {
        let host = self.clone();
        match order.effect {
            Effect::Watch { attempt } => {
                // A watch lasts as long as its tree: it must not hold on to the job.
                let session = AgentSession::of(&host, &order.job, order.epoch, attempt);
                let session = session.map(|session| session.map(Box::new));
                let (job, known) = (order.job.id, KnownAttempt::of(&order.job, attempt));
                Box::pin(async move { host.watch(job, attempt, known, session?, &reports).await })
            }
            Effect::Launch { attempt } => Box::pin(async move { host.start(order, attempt, &reports).await }),
            Effect::Locate { attempt } => Box::pin(async move { host.find(order, attempt, &reports).await }),
            _ => Box::pin(async move { host.command(order, &reports).await }),
        }
    }

    fn extend_lease(&self, life: Incarnation, until: u64) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(async move {
            // It does not wait for its turn behind launches and sweeps: a lease ends meanwhile.
            let written = tokio::task::spawn_blocking(move || match &host.0.leases {
                Some(leases) => leases.extend(life, until),
                None => Ok(()),
            });
            written.await.map_err(io::Error::other)?
        })
    }

    fn kept(&self) -> Vec<(JobId, AttemptNo)> {
        self.0.keepers.kept()
    }

    fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        self.0.keepers.gone(of)
    }

    fn written(&self, job: JobId, attempt: AttemptNo) -> u64 {
        proc::bytes_written(&self.dir(job, attempt))
    }

    fn holder_of(&self, ancestors: &[(i32, u64)]) -> Option<JobId> {
        self.0.keepers.holder_of(ancestors)
    }

    fn last_written(&self, job: JobId, attempt: AttemptNo) -> LastWritten {
        let written =
            self.0.keepers.last_written(job, attempt, || proc::last_written(&self.dir(job, attempt)));
        let written = written.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let written = written.and_then(|at| u64::try_from(at.as_millis()).ok());
        written.map_or(LastWritten::Never, |at| LastWritten::At(Timestamp(at)))
    }
}

impl LocalHost {
    /// Makes the worktree, if the job has one, and launches.
    async fn start(&self, order: Order, attempt: AttemptNo, reports: &Reports) -> Result<(), String> {
        if let Some(report) = self.make_worktree(&order, attempt).await? {
            reports.report(report).await;
            return Ok(());
        }
        let launched = self.blocking(move |host| host.launch(&order, attempt)).await?;
        reports.report(launched?).await;
        Ok(())
    }

    /// Finds out what became of an attempt.
    async fn find(&self, order: Order, attempt: AttemptNo, reports: &Reports) -> Result<(), String> {
        let call = self.blocking(move |host| (host.locate_and_adopt(&order, attempt), order));
        let (located, order) = call.await?;
        let located = located?;
        let is_alive = matches!(located, Report::Located { found: Found::Alive { .. }, .. });
        // Unread output of an agent is reported before its end.
        if !is_alive && let Ok(Some(mut session)) = AgentSession::of(self, &order.job, order.epoch, attempt) {
            session.read_to_end(exit_of(&located), reports).await;
        }
        reports.report(located).await;
        Ok(())
    }
}
