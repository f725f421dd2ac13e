//! Locate: what became of an attempt, read off its folder.

use std::sync::Arc;

use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, Job, JobId};
use lastword_proc::{self as proc, Alive, Located, boot_id};

use super::Kept;
use super::launch::tree;

/// Returns in which boot an attempt was intended. A log of an older build does not say; it is taken for one of this boot.
pub(super) fn boot_of(job: &Job, attempt: AttemptNo) -> Arc<str> {
    let intended = job.attempts.iter().find(|known| known.no == attempt);
    intended.and_then(|attempt| attempt.boot.clone()).unwrap_or_else(|| boot_id().into())
}

impl Kept {
    /// Looks for an attempt.
    pub(super) fn locate(&self, job: &Job, attempt: AttemptNo) -> Result<Report, String> {
        self.locate_in(job.id, attempt, &boot_of(job, attempt))
    }

    /// Looks for an attempt that was intended in the given boot. An error means that nothing can be said yet.
    pub(super) fn locate_in(&self, job: JobId, attempt: AttemptNo, boot: &str) -> Result<Report, String> {
        self.have_folder(job)?;
        let located = proc::locate(&self.dir(job, attempt), boot).map_err(|error| error.to_string())?;
        let found = match located {
            Located::Alive(Alive {
                leader: Some((leader, level)),
                launched: Some(awake),
                guard,
                withheld,
            }) => {
                self.0.lines.expect_again(job, attempt, &guard);
                Found::Alive { tree: tree(&leader, level, withheld), awake: Awake(awake) }
            }
            Located::Alive(_) => return Err("its keeper has not let it go yet".to_owned()),
            // A launch that failed is known by its words; they are in the record.
            Located::Ended(record) => match record.exec_error {
                Some(error) => return Ok(Report::LaunchFailed { attempt, error }),
                None => Found::Ended(Box::new(record.receipt)),
            },
            Located::NeverStarted => Found::NeverStarted,
            Located::OtherBoot => Found::OtherBoot,
            Located::Vanished(record) => Found::Vanished(Box::new(record.receipt)),
        };
        Ok(Report::Located { attempt, found })
    }

    /// Makes the folder of a job, in which those of its attempts are looked for.
    fn have_folder(&self, job: JobId) -> Result<(), String> {
        proc::Folder::create(&self.folder(job))
            .map(drop)
            .map_err(|error| format!("the folder of the job cannot be looked into: {error}"))
    }
}
