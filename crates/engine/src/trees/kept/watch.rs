//! Watch: follows a tree to its end on the line to its keeper, without holding a thread.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, InputNo, JobId};
use lastword_proc::{self as proc, Keeper};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::talk::{Talk, exit_of};
use super::wire::{Watched, Wire};
use super::{Kept, Reports};

/// Pause between looks at a keeper whose shim is gone: what its guard does takes milliseconds. It doubles.
const GUARD_MIN: Duration = Duration::from_millis(5);

/// The longest one.
const GUARD_MAX: Duration = Duration::from_secs(1);

/// Looks after which a keeper that lives and cannot be reached is a trouble.
const LOOKS_MAX: u32 = 16;

/// Inputs that may wait for one job; of those before, a keeper may have said long ago that they were read.
const INPUTS_MAX: u64 = 64;

impl Kept {
    /// Follows a tree to its end, and reports how it came to it.
    pub(super) async fn watch(
        &self,
        job: JobId,
        attempt: AttemptNo,
        boot: Arc<str>,
        mut talk: Option<Box<Talk>>,
        reports: &Reports,
    ) -> Result<(), String> {
        let (mut told, mut pause, mut looks) = (0, GUARD_MIN, 0);
        loop {
            // What is done once is boxed: a watch that waits, as almost all do, is kept small.
            if let Some(Watched { wire, told: already, taken }) = Box::pin(self.reach(job, attempt)).await {
                reports.is_there();
                let began = Instant::now();
                match &mut talk {
                    Some(talk) => Box::pin(talk.follow(wire, already, taken, reports)).await,
                    None => {
                        Box::pin(tell_all(already, &mut told, reports)).await;
                        follow(wire, attempt, &mut told, reports).await;
                    }
                }
                if began.elapsed() > GUARD_MAX {
                    (pause, looks) = (GUARD_MIN, 0);
                }
            }
            self.0.lines.lost(job, attempt);
            let boot = Arc::clone(&boot);
            let looked = self.blocking(move |kept| kept.locate_in(job, attempt, &boot));
            match Box::pin(looked).await?? {
                // Its shim is gone and its guard is at work; or it has let us go for others.
                Report::Located { found: Found::Alive { .. }, .. } if looks < LOOKS_MAX => {
                    sleep(pause).await;
                    (pause, looks) = ((pause * 2).min(GUARD_MAX), looks + 1);
                }
                Report::Located { found: Found::Alive { .. }, .. } => {
                    return Err("its keeper lives and cannot be reached".to_owned());
                }
                over => {
                    if let Some(talk) = &mut talk {
                        Box::pin(talk.hear_out(exit_of(&over), reports)).await;
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
        self.0.lines.over(job, attempt);
        Ok(())
    }

    /// Opens a line to a keeper, if there is one.
    async fn reach(&self, job: JobId, attempt: AttemptNo) -> Option<Watched> {
        let said = self.0.lines.said(job, attempt)?;
        let connected = self.blocking(move |kept| {
            let (socket, unread) = Keeper::connect(&kept.dir(job, attempt), 0).ok()?.into_parts();
            socket.set_nonblocking(true).ok()?;
            Some((UnixStream::from_std(socket).ok()?, unread))
        });
        let (socket, unread) = connected.await.ok()??;
        let watched = Wire::watched(socket, unread, said).await?;
        self.0.lines.connected(job, attempt, watched.wire.socket());
        Some(watched)
    }
}

/// Hears events until the keeper is gone, or has said that all is over.
async fn follow(mut wire: Wire, attempt: AttemptNo, told: &mut u64, reports: &Reports) {
    while let Some(event) = wire.next().await {
        if proc::is_ended_event(&event) {
            return;
        }
        if let Some((rung, alive)) = proc::parse_climbed(&event) {
            Box::pin(reports.report(Report::Climbed { attempt, rung, alive })).await;
        }
        if let Some(upto) = proc::parse_written(&event) {
            Box::pin(tell_all(upto, told, reports)).await;
        }
    }
}

/// Reports that all inputs up to this one were read.
async fn tell_all(upto: u64, told: &mut u64, reports: &Reports) {
    for no in (*told).max(upto.saturating_sub(INPUTS_MAX)) + 1..=upto {
        reports.report(Report::Told { input: InputNo(u32::try_from(no).unwrap_or(u32::MAX)) }).await;
    }
    *told = upto.max(*told);
}
