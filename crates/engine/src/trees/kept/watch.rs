//! Watch: follows a tree to its end on the line to its keeper, without holding a thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, InputNo, JobId};
use lastword_proc::{self as proc, Keeper};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::{Kept, Reports};

/// Pause between looks at a keeper whose shim is gone: what its guard does takes milliseconds. It doubles.
const GUARD_MIN: Duration = Duration::from_millis(5);

/// The longest one.
const GUARD_MAX: Duration = Duration::from_secs(1);

/// Looks after which a keeper that lives and cannot be reached is a trouble.
const LOOKS_MAX: u32 = 16;

/// Inputs that may wait for one job; of those before, a keeper may have said long ago that they were read.
const INPUTS_MAX: u64 = 64;

/// A line to a keeper, with what was received and not read yet.
struct Open {
    socket: Arc<UnixStream>,
    unread: Vec<u8>,
}

impl Kept {
    /// Follows a tree to its end, and reports how it came to it.
    pub(super) async fn watch(
        &self,
        job: JobId,
        attempt: AttemptNo,
        boot: Arc<str>,
        reports: &Reports,
    ) -> Result<(), String> {
        let (mut told, mut pause, mut looks) = (0, GUARD_MIN, 0);
        loop {
            if let Some(mut open) = self.blocking(move |kept| kept.reach(job, attempt)).await? {
                reports.is_there();
                let began = Instant::now();
                follow(&mut open, attempt, &mut told, reports).await;
                if began.elapsed() > GUARD_MAX {
                    (pause, looks) = (GUARD_MIN, 0);
                }
            }
            self.0.lines.lost(job, attempt);
            let boot = Arc::clone(&boot);
            let looked = self.blocking(move |kept| kept.locate_in(job, attempt, &boot)).await?;
            match looked? {
                // Its shim is gone and its guard is at work; or it has let us go for others.
                Report::Located { found: Found::Alive { .. }, .. } if looks < LOOKS_MAX => {
                    sleep(pause).await;
                    (pause, looks) = ((pause * 2).min(GUARD_MAX), looks + 1);
                }
                Report::Located { found: Found::Alive { .. }, .. } => {
                    return Err("its keeper lives and cannot be reached".to_owned());
                }
                Report::Located { found: Found::Ended(receipt), .. } => {
                    reports.report(Report::Emptied { attempt, receipt }).await;
                    break;
                }
                other => {
                    reports.report(other).await;
                    break;
                }
            }
        }
        self.0.lines.over(job, attempt);
        Ok(())
    }

    /// Opens a line to a keeper, if there is one. Blocks.
    fn reach(&self, job: JobId, attempt: AttemptNo) -> Option<Open> {
        let reached = || {
            let mut keeper = Keeper::connect(&self.dir(job, attempt), 0)?;
            let status = keeper.watch()?;
            Ok::<_, proc::Error>((keeper.into_parts(), status))
        };
        let ((socket, unread), status) = reached().ok()?;
        socket.set_nonblocking(true).ok()?;
        let socket = Arc::new(UnixStream::from_std(socket).ok()?);
        self.0.lines.connected(job, attempt, &socket);
        // What it has said before we listened, as if it said it now.
        let told = proc::Line::new("event").with("what", "told").with("no", status.told).to_string();
        Some(Open { socket, unread: [told.into_bytes(), unread].concat() })
    }
}

/// Reads events until the keeper is gone, or has said that all is over.
async fn follow(open: &mut Open, attempt: AttemptNo, told: &mut u64, reports: &Reports) {
    loop {
        while let Some(end) = open.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = open.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            if proc::has_ended(&line) {
                return;
            }
            hear(&line, attempt, told, reports).await;
        }
        open.unread.shrink_to(0);
        if open.socket.readable().await.is_err() {
            return;
        }
        match receive(open) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Receives what is there, without keeping room for it while there is nothing.
fn receive(open: &mut Open) -> io::Result<usize> {
    let mut chunk = [0; 512];
    let received = open.socket.try_read(&mut chunk)?;
    open.unread.extend_from_slice(&chunk[..received]);
    Ok(received)
}

/// Reports what an event says.
async fn hear(line: &str, attempt: AttemptNo, told: &mut u64, reports: &Reports) {
    if let Some((rung, alive)) = proc::climbed(line) {
        reports.report(Report::Climbed { attempt, rung, alive }).await;
    }
    if let Some(upto) = proc::told(line) {
        for no in (*told).max(upto.saturating_sub(INPUTS_MAX)) + 1..=upto {
            reports.report(Report::Told { input: InputNo(u32::try_from(no).unwrap_or(u32::MAX)) }).await;
        }
        *told = upto.max(*told);
    }
}
