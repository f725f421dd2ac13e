//! How an attempt ended and what proves that nothing of it is left.
//!
//! A keeper writes these facts; only `decide` turns them into an outcome.

use serde::{Deserialize, Serialize};

use crate::ids::Timestamp;
use crate::outcome::Budget;

/// What was found, what was signalled, and how the tree was proven empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// How well the tree was held.
    pub level: Level,
    /// Why nothing of it can be alive.
    pub proof: Proof,
    /// Processes seen when the stop began; of a storm of them only the first.
    pub processes: Vec<Process>,
    /// Processes found in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub found: u64,
    /// Rungs tried, in order.
    pub rungs: Vec<RungTaken>,
    /// Processes still there after the leader had exited.
    pub leftovers: Vec<Process>,
    /// Output bytes.
    pub output: OutputBytes,
    /// Bytes of the recording are missing that its caps do not explain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_lost: bool,
    /// The tree was allowed to gain privileges, and so to escape to another user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_escape: bool,
    /// How the leader exited, if it was seen.
    pub exit: Option<Exit>,
    /// From the request to the empty tree.
    pub asked_to_empty_ms: Option<u64>,
    /// The keeper's own reason to stop, when it acted alone.
    pub keeper_stop: Option<KeeperStop>,
}

impl Receipt {
    /// Returns the receipt of an attempt of which nothing was seen, on the strength of `proof` alone.
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
            asked_to_empty_ms: None,
            keeper_stop: None,
        }
    }
}

/// A count that says nothing is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a tree is held, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing was ever held: no process was started or seen.
    None,
    /// A subreaper walks the tree to the last child.
    Subreaper,
    /// The same, and the tree cannot signal its keeper.
    Landlock,
    /// A control group of its own.
    Cgroup,
    /// A process namespace of its own.
    Namespace,
}

/// Why nothing of an attempt can be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The keeper waited until it had no child.
    NoChildren,
    /// The same, and the control group was empty.
    CgroupEmptyAndNoChildren,
    /// The namespace of the tree is gone.
    NamespaceGone,
    /// No process was ever started, and none can be.
    NeverStarted,
    /// The host has booted since.
    BootChanged,
    /// The keeper had to end its tree before the lease ran out, and the lease has run out.
    LeaseSelfFenced,
    /// The keeper is gone. What could be found was killed; more cannot be said.
    BestEffort,
}

impl Proof {
    /// Reports whether the proof leaves no room for a survivor.
    pub fn is_certain(self) -> bool {
        self != Proof::BestEffort
    }
}

/// One process, by identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot; with the boot id and the pid this names it.
    pub start_ticks: u64,
    /// Its command line, cut short.
    pub command: String,
}

/// A rung of the ladder, as climbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RungTaken {
    /// Which.
    pub rung: Rung,
    /// When.
    pub at: Timestamp,
}

/// The rungs of a stop, gentlest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The agent was asked in its own protocol.
    Interrupt,
    /// Its input was closed.
    StdinClosed,
    /// TERM to the whole tree.
    Term,
    /// KILL to the whole tree.
    Kill,
}

/// Output of the tree, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputBytes {
    /// Bytes the tree wrote.
    pub seen: u64,
    /// Bytes on disk.
    pub kept: u64,
}

/// How a leader exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a keeper stopped its tree without being told by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperStop {
    /// The hard wall-clock limit it holds ran out.
    Deadline,
    /// Its lease ran out unheard.
    Lease,
    /// It was told to stop while the journal was away; the wish is in its own record.
    LocalCancel,
    /// It was told to stop for stall while the journal was away.
    LocalStall,
    /// It was told to stop for a budget while the journal was away.
    LocalBudget(Budget),
}

/// A process tree, by the identity of its leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tree {
    /// Which boot of the host.
    pub boot: String,
    /// The leader's number.
    pub pid: i32,
    /// When the leader started, in clock ticks since that boot.
    pub start_ticks: u64,
    /// How the tree is held.
    pub level: Level,
    /// What of its caller's resource limits and nice value it could not be given, for people; absent if it has them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}
