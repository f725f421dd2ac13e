//! Locate: finds out what became of an attempt from its folder.

use std::sync::Arc;

use lastword_core::receipt::{Level, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, Job, JobId};
use lastword_proc::{self as proc, Alive, Identity, Located, boot_id};

use super::local::LocalHost;

/// Returns the boot in which an attempt was intended. Logs of older builds do not say; this boot is assumed.
pub(super) fn boot_of(job: &Job, attempt: AttemptNo) -> Arc<str> {
    let intended = job.attempts.iter().find(|known| known.no == attempt);
    intended.and_then(|attempt| attempt.boot.clone()).unwrap_or_else(|| boot_id().into())
}

/// Returns a tree in the words of core.
pub(super) fn tree(leader: &Identity, level: Level, withheld: Option<String>) -> Tree {
    Tree { boot: leader.boot.clone(), pid: leader.pid, start_ticks: leader.start_ticks, level, withheld }
}

impl LocalHost {
    /// Finds out what became of an attempt.
    pub(super) fn locate(&self, job: &Job, attempt: AttemptNo) -> Result<Report, String> {
        self.locate_in(job.id, attempt, &boot_of(job, attempt))
    }

    /// The same for an attempt that was intended in the given boot. An error means that it cannot be known yet.
    pub(super) fn locate_in(&self, job: JobId, attempt: AttemptNo, boot: &str) -> Result<Report, String> {
        self.create_folder(job)?;
        let located = proc::locate(&self.dir(job, attempt), boot).map_err(|error| error.to_string())?;
        let found = match located {
            Located::Alive(Alive {
                leader: Some((leader, level)),
                launched: Some(awake),
                guard,
                withheld,
            }) => {
                self.0.keepers.expect_again(job, attempt, &guard);
                Found::Alive { tree: tree(&leader, level, withheld), awake: Awake(awake) }
            }
            Located::Alive(_) => return Err("its keeper has not started it yet".to_owned()),
            // The record of a failed launch holds the error.
            Located::Ended(record) => match record.exec_error {
                Some(error) => {
                    let launch_error = record.receipt.launch_error;
                    return Ok(Report::LaunchFailed { attempt, error, launch_error });
                }
                None => Found::Ended(Box::new(record.receipt)),
            },
            Located::NeverStarted => Found::NeverStarted,
            Located::OtherBoot => Found::OtherBoot,
            Located::Vanished(record) => Found::Vanished(Box::new(record.receipt)),
        };
        Ok(Report::Located { attempt, found })
    }

    /// Creates the folder of a job if it is missing: its attempts are looked up in it.
    fn create_folder(&self, job: JobId) -> Result<(), String> {
        proc::Folder::create(&self.folder(job))
            .map(drop)
            .map_err(|error| format!("cannot open the folder of the job: {error}"))
    }
}
