//! Receipts: how an attempt ended, and what proves that nothing of it is left.
//!
//! A keeper writes a receipt; only `decide::end` turns it into an outcome.

use serde::{Deserialize, Serialize};

use crate::ids::{Awake, Timestamp};
use crate::outcome::Budget;

/// What a keeper found and signalled, and how it proved the tree empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// How the tree was contained.
    pub level: Level,
    /// Why nothing of it can be alive.
    pub proof: Proof,
    /// Processes seen when the stop began. If there are many, only the first.
    pub processes: Vec<Process>,
    /// The number of processes found.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub found: u64,
    /// The rungs reached, in order.
    pub rungs: Vec<RungTaken>,
    /// Processes that were alive after the leader had exited.
    pub leftovers: Vec<Process>,
    /// Bytes of output.
    pub output: OutputBytes,
    /// Bytes of the recording are missing, beyond its caps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_lost: bool,
    /// Processes may be left that the proof does not cover: the tree entered a PID namespace that it did not make, or was allowed to gain
    /// privileges and may have escaped to another user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_escape: bool,
    /// The exit status of the leader, if it was seen.
    pub exit: Option<Exit>,
    /// The leader exited before anything asked the tree to stop. What 0.1.0 stored does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exited_first: bool,
    /// The time from the request to the empty tree.
    pub asked_to_empty_ms: Option<u64>,
    /// The keeper's own reason to stop, if its owner did not tell it to.
    pub keeper_stop: Option<KeeperStop>,
    /// When the tree became empty, by the awake clock. What 0.1.0 stored does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_at: Option<Awake>,
    /// Where a launch failed. Absent if it did not, and in what 0.1.0 stored, which has only the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_error: Option<LaunchError>,
}

impl Receipt {
    /// Reports whether it rules out survivors.
    pub fn is_certain(&self) -> bool {
        self.proof.is_certain() && !self.may_escape
    }

    /// Returns a receipt with nothing but a proof.
    pub fn bare(proof: Proof) -> Receipt {
        Receipt {
            level: Level::None,
            proof,
            processes: Vec::new(),
            found: 0,
            rungs: Vec::new(),
            leftovers: Vec::new(),
            output: OutputBytes::default(),
            output_lost: false,
            may_escape: false,
            exit: None,
            exited_first: false,
            asked_to_empty_ms: None,
            keeper_stop: None,
            empty_at: None,
            launch_error: None,
        }
    }
}

/// Zero is not stored.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a tree is contained, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Not at all: no process was started or seen.
    None,
    /// By a subreaper that waits for every descendant.
    Subreaper,
    /// By a subreaper, and Landlock keeps the tree from signalling its keeper.
    Landlock,
    /// By a control group.
    Cgroup,
    /// By a PID namespace.
    Namespace,
}

/// Why nothing of an attempt can be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The keeper waited until it had no children.
    NoChildren,
    /// The keeper waited until it had no children and the control group was empty.
    CgroupEmptyAndNoChildren,
    /// The PID namespace of the tree is gone.
    NamespaceGone,
    /// No process was ever started, and none can be.
    NeverStarted,
    /// The host has rebooted since.
    BootChanged,
    /// The keeper ends its tree before the lease runs out, and the lease has run out.
    LeaseSelfFenced,
    /// The keeper is gone. Every process that could be found was killed, but others may be left.
    BestEffort,
}

impl Proof {
    /// Reports whether the proof rules out survivors.
    pub fn is_certain(self) -> bool {
        self != Proof::BestEffort
    }
}

/// A process, identified by boot, pid and start time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its command line, truncated.
    pub command: String,
}

/// A rung that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RungTaken {
    /// The rung.
    pub rung: Rung,
    /// When it was reached.
    pub at: Timestamp,
}

/// The rungs of a stop, gentlest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The agent was asked to stop, in its own protocol.
    Interrupt,
    /// Its input was closed.
    StdinClosed,
    /// SIGTERM to the whole tree.
    Term,
    /// SIGKILL to the whole tree.
    Kill,
}

/// Counted output of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputBytes {
    /// Bytes that the tree wrote.
    pub seen: u64,
    /// Bytes kept on disk.
    pub kept: u64,
}

/// How a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Where a launch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchError {
    /// The step that failed.
    pub step: LaunchStep,
    /// The error number of the system, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl LaunchError {
    /// Returns an error of a step that no system call failed in.
    pub fn at(step: LaunchStep) -> LaunchError {
        LaunchError { step, errno: None }
    }
}

/// The steps of a launch, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchStep {
    /// Before a keeper was asked: the environment, the worktree, the agent's definition.
    Prepare,
    /// In the keeper: its folder, pipes, the fork.
    Keeper,
    /// In the keeper: the lease was over, so it started nothing.
    Lease,
    /// In the child: its session and controlling terminal.
    Session,
    /// In the child: standard input, output and error.
    Stdio,
    /// In the child: the control group.
    Cgroup,
    /// In the child: giving up privileges.
    Privileges,
    /// In the child: entering the folder of the job.
    Folder,
    /// In the child: executing the program.
    Exec,
    /// A step that this build does not know.
    #[serde(other)]
    Other,
}

/// Why a keeper stopped its tree on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperStop {
    /// Its wall-clock deadline passed.
    Deadline,
    /// Its lease ran out without a renewal.
    Lease,
    /// A user asked it to stop while the journal was unavailable.
    LocalCancel,
    /// The stall limit was reached while the journal was unavailable.
    LocalStall,
    /// A budget was used up while the journal was unavailable.
    LocalBudget(Budget),
}

/// A process tree, identified by its leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tree {
    /// The boot of the host.
    pub boot: String,
    /// The pid of the leader.
    pub pid: i32,
    /// When the leader started, in clock ticks since that boot.
    pub start_ticks: u64,
    /// How the tree is contained.
    pub level: Level,
    /// What of its caller's resource limits and nice value it could not be given, for people; absent if it has them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}
