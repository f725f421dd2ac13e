//! Watch: follows a tree to its end over the connection to its keeper, without holding a thread.

use std::time::Duration;

use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, InputNo, JobId};
use lastword_proc::{self as proc, Keeper};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::connection::{KeeperConnection, Watched};
use super::local::LocalHost;
use super::locate::KnownAttempt;
use super::session::{AgentSession, exit_of};
use crate::mailbox::Reports;

/// First pause before a keeper is located again whose shim is gone: its guard ends the tree within milliseconds. It doubles.
const GUARD_MIN: Duration = Duration::from_millis(5);

/// The longest pause.
const GUARD_MAX: Duration = Duration::from_secs(1);

/// Tries after which a keeper that is alive and cannot be reached is reported.
const TRIES_MAX: u32 = 16;

/// Inputs that may wait for one job. Older ones may have been reported long ago.
const INPUTS_MAX: u64 = 64;

impl LocalHost {
    /// Follows a tree to its end and reports each step.
    pub(super) async fn watch(
        &self,
        job: JobId,
        attempt: AttemptNo,
        known: KnownAttempt,
        mut session: Option<Box<AgentSession>>,
        reports: &Reports,
    ) -> Result<(), String> {
        let (mut written, mut pause, mut tries) = (0, GUARD_MIN, 0);
        loop {
            // One-off calls are boxed, so that a waiting watch (almost all of them) stays small.
            if let Some(Watched { connection, written: known, taken }) =
                Box::pin(self.connect(job, attempt)).await
            {
                reports.is_there();
                let began = Instant::now();
                match &mut session {
                    Some(session) => Box::pin(session.follow(connection, known, taken, reports)).await,
                    None => {
                        Box::pin(report_inputs(known, &mut written, reports)).await;
                        follow(connection, attempt, &mut written, reports).await;
                    }
                }
                if began.elapsed() > GUARD_MAX {
                    (pause, tries) = (GUARD_MIN, 0);
                }
            }
            self.0.keepers.disconnected(job, attempt);
            let known = known.clone();
            let located = self.blocking(move |host| host.locate_known(job, attempt, &known));
            match Box::pin(located).await?? {
                // The shim is gone and the guard is at work, or the keeper evicted this connection.
                Report::Located { found: Found::Alive { .. }, .. } if tries < TRIES_MAX => {
                    sleep(pause).await;
                    (pause, tries) = ((pause * 2).min(GUARD_MAX), tries + 1);
                }
                Report::Located { found: Found::Alive { .. }, .. } => {
                    return Err("its keeper is alive and does not accept connections".to_owned());
                }
                over => {
                    if let Some(session) = &mut session {
                        Box::pin(session.read_to_end(exit_of(&over), reports)).await;
                    }
                    let over = match over {
                        Report::Located { found: Found::Ended(receipt), .. } => {
                            Report::Emptied { attempt, receipt }
                        }
                        other => other,
                    };
                    Box::pin(reports.report(over)).await;
                    break;
                }
            }
        }
        self.0.keepers.remove(job, attempt);
        Ok(())
    }

    /// Connects to a keeper, if it is there.
    async fn connect(&self, job: JobId, attempt: AttemptNo) -> Option<Watched> {
        let outbox = self.0.keepers.outbox(job, attempt)?;
        let connected = self.blocking(move |host| {
            let (socket, unread) = Keeper::connect(&host.dir(job, attempt), 0).ok()?.into_parts();
            socket.set_nonblocking(true).ok()?;
            Some((UnixStream::from_std(socket).ok()?, unread))
        });
        let (socket, unread) = connected.await.ok()??;
        let watched = KeeperConnection::watched(socket, unread, outbox).await?;
        self.0.keepers.connected(job, attempt, watched.connection.socket());
        Some(watched)
    }
}

/// Reads events until the keeper is gone or reports the end.
async fn follow(mut connection: KeeperConnection, attempt: AttemptNo, written: &mut u64, reports: &Reports) {
    while let Some(event) = connection.next().await {
        if proc::is_ended_event(&event) {
            return;
        }
        if let Some((rung, alive)) = proc::parse_climbed(&event) {
            Box::pin(reports.report(Report::Climbed { attempt, rung, alive })).await;
        }
        if let Some(upto) = proc::parse_written(&event) {
            Box::pin(report_inputs(upto, written, reports)).await;
        }
    }
}

/// Reports every input up to `upto` as delivered.
async fn report_inputs(upto: u64, written: &mut u64, reports: &Reports) {
    for no in (*written).max(upto.saturating_sub(INPUTS_MAX)) + 1..=upto {
        reports.report(Report::Told { input: InputNo(u32::try_from(no).unwrap_or(u32::MAX)) }).await;
    }
    *written = upto.max(*written);
}
