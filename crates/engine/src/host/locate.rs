//! Locate: finds out what became of an attempt from its folder and from what the journal knows.

use std::sync::Arc;

use lastword_core::receipt::{Level, Proof, Receipt, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, Job, JobId};
use lastword_proc::{self as proc, Alive, Error, Identity, Keeper, Located, boot_id};

use super::local::LocalHost;
use super::traits::Order;

/// What the journal knows of an attempt, to find it by.
#[derive(Clone, Debug)]
pub(super) struct KnownAttempt {
    /// The boot in which it was intended. Logs of older builds do not say; this boot is assumed.
    boot: Arc<str>,
    /// Its leader, once that was seen.
    leader: Option<Identity>,
}

impl KnownAttempt {
    /// Returns what a job's log says of an attempt.
    pub(super) fn of(job: &Job, attempt: AttemptNo) -> KnownAttempt {
        let attempt = job.attempts.iter().find(|known| known.no == attempt);
        let boot = attempt.and_then(|attempt| attempt.boot.clone()).unwrap_or_else(|| boot_id().into());
        let tree = attempt.and_then(|attempt| attempt.tree.as_ref());
        let leader = tree.map(|tree| Identity {
            boot: tree.boot.clone(),
            pid: tree.pid,
            start_ticks: tree.start_ticks,
            inode: None,
        });
        KnownAttempt { boot, leader }
    }
}

/// Returns a tree in the words of core.
pub(super) fn tree(leader: &Identity, level: Level, withheld: Option<String>) -> Tree {
    Tree { boot: leader.boot.clone(), pid: leader.pid, start_ticks: leader.start_ticks, level, withheld }
}

impl LocalHost {
    /// Finds out what became of an attempt. A tree that is alive follows the lease of this life from now on.
    pub(super) fn locate_and_adopt(&self, order: &Order, attempt: AttemptNo) -> Result<Report, String> {
        let known = KnownAttempt::of(&order.job, attempt);
        let located = self.locate_known(order.job.id, attempt, &known)?;
        match located {
            Report::Located { found: Found::Alive { .. }, .. } => {
                self.adopt(order, attempt)?;
                Ok(located)
            }
            // Where hosts share a journal, the other boot may be that of a host whose clone this is. Its life is over, which proves it by time.
            Report::Located { found: Found::OtherBoot, .. }
                if self.lease_of(&order.job, order.life).is_some() =>
            {
                let found = Found::Ended(Box::new(Receipt::bare(Proof::LeaseSelfFenced)));
                Ok(Report::Located { attempt, found })
            }
            other => Ok(other),
        }
    }

    /// Has the keeper of a tree that an earlier life left follow the lease of this one.
    fn adopt(&self, order: &Order, attempt: AttemptNo) -> Result<(), String> {
        let Some(lease) = self.lease_of(&order.job, order.life) else { return Ok(()) };
        let keeper = Keeper::connect(&self.dir(order.job.id, attempt), order.epoch.0.into());
        match keeper.and_then(|mut keeper| keeper.follow(Some(&lease))) {
            // A later owner commands it.
            Ok(()) | Err(Error::Stale(_)) => Ok(()),
            Err(error) => Err(format!("its keeper does not follow the lease of this worker: {error}")),
        }
    }

    /// Finds it by what is known of it. An error means that it cannot be known yet.
    pub(super) fn locate_known(
        &self,
        job: JobId,
        attempt: AttemptNo,
        known: &KnownAttempt,
    ) -> Result<Report, String> {
        self.create_folder(job)?;
        let located = proc::locate_known(&self.dir(job, attempt), &known.boot, known.leader.as_ref());
        let located = located.map_err(|error| error.to_string())?;
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
    pub(super) fn create_folder(&self, job: JobId) -> Result<(), String> {
        proc::Folder::create(&self.folder(job))
            .map(drop)
            .map_err(|error| format!("cannot open the folder of the job: {error}"))
    }
}
