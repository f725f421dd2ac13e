//! `observe`: what a report about the tree means. Only the owner decides this, with its fence.
//!
//! A report is never refused: one about an attempt that is not open adds nothing.

use super::{end, hear};
use crate::event::{Adopted, Fact, InputDelivered, Launched, RungClimbed, StopBegan};
use crate::ids::{AttemptNo, Fence, Now};
use crate::job::{Attempt, Job, Phase};
use crate::receipt::{LaunchStep, Proof, Receipt};
use crate::report::{Found, Pulse, Report, Signal};

/// Returns the facts that follow from a report.
pub fn decide(job: &Job, fence: &Fence, report: &Report, pulse: &Pulse, now: Now) -> Vec<Fact> {
    let open = |no: AttemptNo| job.open_attempt().filter(|attempt| attempt.no == no);
    match report {
        Report::Launched { attempt, tree, awake } => match open(*attempt) {
            Some(Attempt { tree: None, .. }) => {
                vec![Launched { attempt: *attempt, tree: tree.clone(), awake: *awake }.into()]
            }
            _ => Vec::new(),
        },
        Report::LaunchFailed { attempt, error, launch_error } => match open(*attempt) {
            Some(Attempt { tree: None, .. }) => {
                let receipt = Receipt { launch_error: *launch_error, ..Receipt::bare(Proof::NeverStarted) };
                // A launch that came after the end of its lease is no failure of the job, and costs it no try.
                let is_late = launch_error.is_some_and(|error| error.step == LaunchStep::Lease);
                end::attempt(job, receipt, (!is_late).then(|| error.clone()), now.wall, Some(now.awake))
            }
            _ => Vec::new(),
        },
        Report::Located { attempt, found } => {
            open(*attempt).map_or_else(Vec::new, |attempt| located(job, fence, attempt, found, now))
        }
        Report::Emptied { attempt, receipt } => match open(*attempt) {
            Some(_) => end::attempt(job, Receipt::clone(receipt), None, now.wall, Some(now.awake)),
            None => Vec::new(),
        },
        Report::Climbed { attempt, rung, alive } => match (&job.phase, open(*attempt)) {
            // A keeper whose own clock reached the limit reports the rung, and again when it is told to stop.
            (Phase::Stopping { rung: Some(known), .. }, Some(_)) if known == rung => Vec::new(),
            (Phase::Stopping { .. }, Some(_)) => {
                vec![RungClimbed { attempt: *attempt, rung: *rung, alive: *alive }.into()]
            }
            _ => Vec::new(),
        },
        Report::Told { input } => match job.inputs.iter().any(|pending| pending.no == *input) {
            true => vec![InputDelivered { input: *input }.into()],
            false => Vec::new(),
        },
        Report::Heard { attempt, offset, signal } => match open(*attempt) {
            Some(attempt) if is_new(job, attempt, *offset, signal) => {
                hear::decide(job, *offset, signal, pulse, now)
            }
            _ => Vec::new(),
        },
        Report::Unclear(_) => Vec::new(),
    }
}

/// Reports whether a signal is new. A turn that begins with an input has the offset of the signal before it; it is new if no turn is
/// active.
fn is_new(job: &Job, attempt: &Attempt, offset: u64, signal: &Signal) -> bool {
    let begins = matches!(signal, Signal::TurnStarted) && job.active_turn().is_none();
    offset > attempt.heard || (begins && offset == attempt.heard)
}

fn located(job: &Job, fence: &Fence, attempt: &Attempt, found: &Found, now: Now) -> Vec<Fact> {
    match found {
        Found::Alive { tree, awake } => {
            let (attempt, epoch) = (attempt.no, fence.epoch);
            vec![Adopted { attempt, tree: tree.clone(), awake: *awake, epoch }.into()]
        }
        Found::Ended(receipt) | Found::Vanished(receipt) => {
            end::attempt(job, Receipt::clone(receipt), None, now.wall, Some(now.awake))
        }
        // It did run, and its record was removed since. How it ended is unknown, so it must not be retried as if it had not run.
        Found::NeverStarted if attempt.tree.is_some() => {
            end::attempt(job, Receipt::bare(Proof::BestEffort), None, now.wall, Some(now.awake))
        }
        Found::NeverStarted => {
            end::attempt(job, Receipt::bare(Proof::NeverStarted), None, now.wall, Some(now.awake))
        }
        Found::OtherBoot => end::attempt(job, Receipt::bare(Proof::BootChanged), None, now.wall, None),
    }
}

/// Returns the fact that the owner began to stop the tree, once, if a stop was requested.
pub fn stop_began(job: &Job) -> Option<Fact> {
    let attempt = job.open_attempt()?.no;
    let unseen = job.stop.as_ref().is_some_and(|stop| stop.began_at.is_none());
    (unseen && matches!(job.phase, Phase::Stopping { .. })).then(|| StopBegan { attempt }.into())
}
