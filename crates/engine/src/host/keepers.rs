//! Real keepers: which effect is carried out by which call, and what a keeper can be asked.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lastword_core::effects::Effect;
use lastword_core::ids::Incarnation;
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, JobId};
use lastword_proc::{self as proc, Error, Recording, boot_id};

use super::local::LocalHost;
use super::locate::KnownAttempt;
use super::session::{AgentSession, exit_of};
use super::traits::{BoxFuture, Keepers, Order};
use crate::mailbox::Reports;
use crate::{Alive, Stream};

/// How long a status question waits for a keeper, which answers within a millisecond unless it is stopped.
const STATUS_MAX: Duration = Duration::from_millis(500);

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

    fn alive(&self, job: JobId, attempt: AttemptNo) -> BoxFuture<Option<Alive>> {
        let host = self.clone();
        Box::pin(async move {
            let asked = host.blocking(move |host| {
                // Epoch 0 claims nothing: every keeper answers a status question.
                proc::Keeper::connect(&host.dir(job, attempt), 0)?.with_timeout(STATUS_MAX).status()
            });
            let status = asked.await.ok().and_then(Result::ok)?;
            Some(Alive { count: status.alive, pids: status.pids })
        })
    }

    fn resize(&self, job: JobId, attempt: AttemptNo, rows: u16, columns: u16) -> BoxFuture<bool> {
        let host = self.clone();
        Box::pin(async move {
            let asked = host.blocking(move |host| {
                proc::Keeper::connect(&host.dir(job, attempt), 0)?
                    .with_timeout(STATUS_MAX)
                    .resize(rows, columns)
            });
            asked.await.is_ok_and(|done| done.is_ok())
        })
    }

    fn holder_of(&self, ancestors: &[(i32, u64)]) -> Option<JobId> {
        self.0.keepers.holder_of(ancestors)
    }

    fn last_written(&self, job: JobId, attempt: AttemptNo) -> Option<SystemTime> {
        self.0.keepers.last_written(job, attempt, || proc::last_written(&self.dir(job, attempt)))
    }

    fn recording(&self, job: JobId, attempt: AttemptNo, stream: Stream) -> io::Result<Recording> {
        Recording::open(&self.dir(job, attempt), stream.name()).map_err(|error| match error {
            Error::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })
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
