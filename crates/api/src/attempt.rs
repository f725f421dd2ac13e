//! Tries of a job, and what proves that nothing of them is left.

use lastword_core::event::AttemptEnded;
use lastword_core::{Event, Fact, job, receipt};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{Cause, KeeperStop, Level, Outcome, OutcomeDetail, Proof, Rung};

/// One try of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number, from one.
    pub no: u32,
    /// The machine its tree is on.
    pub host: String,
    /// The number of the tree's first process. Another process has it sooner or later.
    pub pid: Option<i32>,
    /// How the tree is held.
    pub level: Option<Level>,
    /// Resource limits and nice value that it could not be given, for people; absent if it has all that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// When the supervisor decided to start it.
    pub intended_at: Option<Time>,
    /// When its tree was there.
    pub launched_at: Option<Time>,
    /// When its end was recorded.
    pub ended_at: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What the outcome leaves open.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// What was reported wrong.
    pub error: Option<String>,
    /// How its first process exited, if that was seen.
    pub exit: Option<Exit>,
    /// What proves that nothing of it is left.
    pub receipt: Option<Receipt>,
}

/// How a process exited: by a code or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exit {
    /// The code it exited with.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// What was found, what was signalled, and how the tree was proven empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// How well the tree was held.
    pub level: Level,
    /// Why nothing of it can be alive.
    pub proof: Proof,
    /// Whether the proof leaves no room for a survivor.
    pub certain: bool,
    /// Processes found in all; `processes` names the first of them.
    pub found: u64,
    /// Processes seen when the stop began.
    pub processes: Vec<Process>,
    /// Rungs of the stop, in order.
    pub rungs: Vec<RungTaken>,
    /// Processes still there after the first one had exited.
    pub leftovers: Vec<Process>,
    /// Bytes of output.
    pub output: Output,
    /// How the first process exited, if that was seen.
    pub exit: Option<Exit>,
    /// From the request to the empty tree.
    pub asked_to_empty_ms: Option<u64>,
    /// Whether the tree was allowed to gain privileges, and so to escape to another user.
    pub may_escape: bool,
    /// The keeper's own reason to stop, when it acted alone.
    pub keeper_stop: Option<KeeperStop>,
}

/// One process, by identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its command line, cut short.
    pub command: String,
}

/// A rung of the stop, as climbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RungTaken {
    /// Which.
    pub rung: Rung,
    /// When.
    pub at: Time,
}

/// Output of a tree, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// Bytes the tree wrote.
    pub seen: u64,
    /// Bytes on disk.
    pub kept: u64,
    /// Whether bytes are missing that the caps do not explain, for example because the disk was full.
    pub lost: bool,
}

impl Attempt {
    /// Returns an attempt as the fold has it, with the moment of its intent from the log.
    pub fn of(attempt: &job::Attempt, events: &[Event]) -> Attempt {
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
            exit: end.and_then(|end| end.receipt.exit).map(Exit::from),
            receipt: end.map(|end| Receipt::of(&end.receipt)),
        }
    }

    /// Reports whether there was a tree, and so a recording. A supervisor that was killed between the launch and its record leaves an
    /// attempt of which only the end is known.
    pub fn has_run(&self) -> bool {
        self.launched_at.is_some() || self.receipt.as_ref().is_some_and(|receipt| receipt.has_seen_a_tree())
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
    /// Reports whether there was a tree at all, as far as is known: after another boot nobody can say.
    pub fn has_seen_a_tree(&self) -> bool {
        !matches!(self.proof, Proof::NeverStarted | Proof::BootChanged)
    }

    /// Returns a receipt as core keeps it.
    pub fn of(receipt: &receipt::Receipt) -> Receipt {
        Receipt {
            level: receipt.level.into(),
            proof: receipt.proof.into(),
            certain: receipt.proof.is_certain(),
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

    /// An attempt whose end is all that the log tells of.
    fn found_ended(proof: receipt::Proof) -> Attempt {
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
            exit: None,
            receipt: Some(Receipt::of(&receipt::Receipt::bare(proof))),
        }
    }

    #[test]
    fn an_attempt_that_was_found_ended_has_run() {
        assert!(found_ended(receipt::Proof::NoChildren).has_run());
        assert!(found_ended(receipt::Proof::BestEffort).has_run());
        assert!(!found_ended(receipt::Proof::NeverStarted).has_run());
    }
}
