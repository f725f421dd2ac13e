//! Attempts of a job, and their receipts.
//!
//! The doc comments of the types and their fields are part of the API document.

use lastword_core::event::AttemptEnded;
use lastword_core::{Event, Fact, job, outcome, receipt};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{Cause, KeeperStop, LaunchStep, Level, Outcome, OutcomeDetail, Proof, Rung};

/// An attempt to do the work of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number, from one.
    pub no: u32,
    /// The host of its process tree.
    pub host: String,
    /// The pid of the tree's first process. It may be reused after the end.
    pub pid: Option<i32>,
    /// How the tree is contained.
    pub level: Option<Level>,
    /// Resource limits and nice value that it could not be given, for people; absent if it has all that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// When the supervisor decided to start it.
    pub intended_at: Option<Time>,
    /// When its tree was started.
    pub launched_at: Option<Time>,
    /// When its end was recorded.
    pub ended_at: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Details of the outcome.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// The error, if any.
    pub error: Option<String>,
    /// Where its launch failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_error: Option<LaunchError>,
    /// How its first process exited, if known.
    pub exit: Option<Exit>,
    /// The proof that nothing of it is left.
    pub receipt: Option<Receipt>,
}

/// Where a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaunchError {
    /// The step that failed.
    pub step: LaunchStep,
    /// The error number of the system, if it named one.
    pub errno: Option<i32>,
}

/// How a process exited: with a code or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// What was found and signalled, and how the tree was proven empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// How the tree was contained.
    pub level: Level,
    /// Why nothing of it can be alive.
    pub proof: Proof,
    /// Whether survivors are ruled out.
    pub certain: bool,
    /// The number of processes found; `processes` has the first of them.
    pub found: u64,
    /// Processes seen when the stop began.
    pub processes: Vec<Process>,
    /// The rungs of the stop that were reached, in order.
    pub rungs: Vec<RungTaken>,
    /// Processes that were alive after the first one had exited.
    pub leftovers: Vec<Process>,
    /// Bytes of output.
    pub output: Output,
    /// How the first process exited, if known.
    pub exit: Option<Exit>,
    /// Milliseconds from the request to the empty tree.
    pub asked_to_empty_ms: Option<u64>,
    /// Whether processes may be left that the proof does not cover: the tree entered a PID namespace that it did not make, or was allowed
    /// to gain another user's rights.
    pub may_escape: bool,
    /// The keeper's own reason to stop, if the supervisor did not tell it to.
    pub keeper_stop: Option<KeeperStop>,
}

/// A process, identified by pid and start time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its command line, truncated.
    pub command: String,
}

/// A rung of a stop that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RungTaken {
    /// The rung.
    pub rung: Rung,
    /// When it was reached.
    pub at: Time,
}

/// Counted output of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// Bytes that the tree wrote.
    pub seen: u64,
    /// Bytes kept on disk.
    pub kept: u64,
    /// Whether bytes are missing beyond the caps, for example because the disk was full.
    pub lost: bool,
}

impl Attempt {
    /// Converts an attempt of core. `events` is the job's log: only it has the time at which the attempt was intended.
    pub fn of(attempt: &job::Attempt, events: &[&Event]) -> Attempt {
        let intent = events.iter().find(|event| match &event.fact {
            Fact::LaunchIntended(intent) => intent.attempt == attempt.no,
            _ => false,
        });
        let end: Option<&AttemptEnded> = attempt.end.as_deref();
        Attempt {
            no: attempt.no.0,
            host: attempt.host.0.to_string(),
            pid: attempt.tree.as_ref().map(|tree| tree.pid),
            level: attempt.tree.as_ref().map(|tree| tree.level.into()),
            withheld: attempt.tree.as_ref().and_then(|tree| tree.withheld.clone()),
            intended_at: intent.map(|event| event.at.into()),
            launched_at: attempt.started_at.map(Time::from),
            ended_at: attempt.ended_at.map(Time::from),
            outcome: end.map(|end| end.outcome.into()),
            outcome_detail: end.and_then(|end| OutcomeDetail::of(end.outcome)),
            cause: end.map(|end| end.cause.into()),
            error: end.and_then(|end| end.error.clone()),
            launch_error: end.and_then(LaunchError::of),
            exit: end.and_then(|end| end.receipt.exit).map(Exit::from),
            receipt: end.map(|end| Receipt::of(&end.receipt)),
        }
    }

    /// Lets the receipt count from the request to stop. Its keeper counts from the order to it, which an agent gets after an interrupt
    /// in its own protocol; the log has that rung.
    pub(crate) fn count_from(&mut self, requested_at: Time, events: &[&Event]) {
        let Some(receipt) = &mut self.receipt else { return };
        let ordered = receipt.rungs.iter().find(|taken| matches!(taken.rung, Rung::Term | Rung::Kill));
        let before = ordered.map_or(0, |taken| taken.at.0.saturating_sub(requested_at.0));
        receipt.asked_to_empty_ms = receipt.asked_to_empty_ms.map(|ms| ms.saturating_add(before));
        let interrupted = events.iter().find_map(|event| match &event.fact {
            Fact::RungClimbed(climbed) if climbed.attempt.0 == self.no => {
                Some(event.at).filter(|_| climbed.rung == receipt::Rung::Interrupt)
            }
            _ => None,
        });
        if let Some(at) = interrupted
            && !receipt.rungs.iter().any(|taken| taken.rung == Rung::Interrupt)
        {
            receipt.rungs.insert(0, RungTaken { rung: Rung::Interrupt, at: at.into() });
        }
    }

    /// Reports whether there was a tree, and so a recording. If the supervisor was killed during the launch, the log has no `launched` and
    /// only the receipt shows it.
    pub fn has_run(&self) -> bool {
        self.launched_at.is_some() || self.receipt.as_ref().is_some_and(|receipt| receipt.has_seen_a_tree())
    }
}

impl LaunchError {
    /// Returns where the launch of an ended attempt failed, if it did.
    fn of(end: &AttemptEnded) -> Option<LaunchError> {
        match (end.receipt.launch_error, &end.error) {
            (Some(error), _) => Some(LaunchError { step: error.step.into(), errno: error.errno }),
            (None, Some(message)) if end.cause == outcome::Cause::Launch => LaunchError::parse(message),
            _ => None,
        }
    }

    /// Parses the message of an attempt that 0.1.0 recorded, which has no other trace of the error. Only a program that could not be
    /// executed is recognized.
    fn parse(message: &str) -> Option<LaunchError> {
        let (_, rest) = message.split_once("cannot run ")?;
        // The last one: the name of the program may contain the same words.
        let (_, errno) = rest.rsplit_once("(os error ")?;
        Some(LaunchError { step: LaunchStep::Exec, errno: errno.trim_end_matches(')').parse().ok() })
    }
}

impl From<receipt::Exit> for Exit {
    fn from(exit: receipt::Exit) -> Exit {
        match exit {
            receipt::Exit::Code(code) => Exit { code: Some(code), signal: None },
            receipt::Exit::Signal(signal) => Exit { code: None, signal: Some(signal) },
        }
    }
}

impl Receipt {
    /// Reports whether a tree is known to have existed. After a reboot it is not known.
    pub fn has_seen_a_tree(&self) -> bool {
        !matches!(self.proof, Proof::NeverStarted | Proof::BootChanged)
    }

    /// Converts a receipt of core.
    pub fn of(receipt: &receipt::Receipt) -> Receipt {
        Receipt {
            level: receipt.level.into(),
            proof: receipt.proof.into(),
            certain: receipt.is_certain(),
            found: receipt.found,
            processes: receipt.processes.iter().map(Process::of).collect(),
            rungs: receipt.rungs.iter().map(RungTaken::of).collect(),
            leftovers: receipt.leftovers.iter().map(Process::of).collect(),
            output: Output {
                seen: receipt.output.seen,
                kept: receipt.output.kept,
                lost: receipt.output_lost,
            },
            exit: receipt.exit.map(Exit::from),
            asked_to_empty_ms: receipt.asked_to_empty_ms,
            may_escape: receipt.may_escape,
            keeper_stop: receipt.keeper_stop.map(KeeperStop::from),
        }
    }
}

impl Process {
    fn of(process: &receipt::Process) -> Process {
        Process { pid: process.pid, start_ticks: process.start_ticks, command: process.command.clone() }
    }
}

impl RungTaken {
    fn of(taken: &receipt::RungTaken) -> RungTaken {
        RungTaken { rung: taken.rung.into(), at: taken.at.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an attempt of which the log has only the end, with this proof.
    fn ended_with(proof: receipt::Proof) -> Attempt {
        Attempt {
            no: 1,
            host: "here".to_owned(),
            pid: None,
            level: None,
            withheld: None,
            intended_at: None,
            launched_at: None,
            ended_at: Some(Time(1)),
            outcome: Some(Outcome::Completed),
            outcome_detail: None,
            cause: Some(Cause::Finished),
            error: None,
            launch_error: None,
            exit: None,
            receipt: Some(Receipt::of(&receipt::Receipt::bare(proof))),
        }
    }

    #[test]
    fn where_a_launch_failed_is_read_from_a_record_of_0_1_0_too() {
        let ended = |launch_error: Option<receipt::LaunchError>, error: &str| AttemptEnded {
            attempt: lastword_core::AttemptNo(1),
            outcome: lastword_core::outcome::Outcome::Failed,
            cause: outcome::Cause::Launch,
            error: Some(error.to_owned()),
            receipt: receipt::Receipt {
                launch_error,
                ..receipt::Receipt::bare(receipt::Proof::NeverStarted)
            },
            cut_short: None,
            ran_ms: None,
        };
        let exec = |errno| Some(LaunchError { step: LaunchStep::Exec, errno: Some(errno) });
        let old = "nothing was started: cannot run /bin/x y: No such file or directory (os error 2)";
        assert_eq!(LaunchError::of(&ended(None, old)), exec(2));
        assert_eq!(LaunchError::of(&ended(None, "cannot enter the folder /x: gone (os error 2)")), None);
        let new = receipt::LaunchError { step: receipt::LaunchStep::Exec, errno: Some(13) };
        assert_eq!(LaunchError::of(&ended(Some(new), "whatever it says")), exec(13));
    }

    #[test]
    fn an_attempt_known_only_by_its_end_has_run() {
        assert!(ended_with(receipt::Proof::NoChildren).has_run());
        assert!(ended_with(receipt::Proof::BestEffort).has_run());
        assert!(!ended_with(receipt::Proof::NeverStarted).has_run());
    }
}
