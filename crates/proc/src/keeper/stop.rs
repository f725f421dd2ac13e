//! The stop: rung by rung, each with its grace, until the tree is empty. Also what a leader left behind.

use lastword_core::ids::Timestamp;
use lastword_core::receipt::{KeeperStop, Process, Rung, RungTaken};
use rustix::process::Signal;

use crate::clock;
use crate::level::cgroup::Leaf;
use crate::tree::{self, OwnChildren, Pass, Roll};

/// How long a tree may take to die of KILL before it is called stuck: uninterruptible, or another user's.
pub(super) const STUCK_AFTER_MS: u64 = 10_000;

/// How often a stuck tree is tried again.
pub(super) const STUCK_PAUSE_MS: u64 = 200;

/// Passes over a tree that is to hold still. Only one that starts processes as fast as they are met needs more than two.
const HOLD_PASSES_MAX: u32 = 32;

/// How long to wait for deaths that were ordered before looking again; a death wakes the keeper earlier.
pub(super) const KILL_PAUSE_MS: u64 = 1;

/// Rungs that are recorded. Only interrupts can be asked for again and again; those beyond are sent all the same.
const RUNGS_MAX: usize = 100;

/// Where a tree is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody wants it to end.
    Running,
    /// Its leader is gone; the rest has until then, by the awake clock.
    Leftovers { until: u64 },
    /// TERM was sent; KILL follows then.
    Terming { until: u64 },
    /// KILL is sent, again and again.
    Killing { since: u64 },
}

/// What is known of a tree's way out.
#[derive(Debug)]
pub(super) struct Stop {
    keeper: i32,
    children: OwnChildren,
    stage: Stage,
    asked_at: Option<u64>,
    pub(super) rungs: Vec<RungTaken>,
    pub(super) roll: Roll,
    pub(super) leftovers: Vec<Process>,
    /// The first KILL ends all of it at once, as in a namespace: who is in it must be counted before.
    pub(super) dies_as_one: bool,
    /// The first reason to stop that was the keeper's own.
    pub(super) keeper_stop: Option<KeeperStop>,
    /// The whole tree was made to hold still.
    is_held: bool,
    /// What the last pass met.
    pub(super) last: Pass,
}

impl Stop {
    pub(super) fn new(keeper: i32) -> Stop {
        Stop {
            keeper,
            children: OwnChildren::open(),
            stage: Stage::Running,
            asked_at: None,
            rungs: Vec::new(),
            roll: Roll::default(),
            leftovers: Vec::new(),
            dies_as_one: false,
            keeper_stop: None,
            is_held: false,
            last: Pass::default(),
        }
    }

    /// Reports whether the tree is being stopped.
    pub(super) fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Reports whether KILL has not helped for so long that somebody should know.
    pub(super) fn is_stuck(&self, now: u64) -> bool {
        matches!(self.stage, Stage::Killing { since } if now.saturating_sub(since) >= STUCK_AFTER_MS)
    }

    /// Returns how long the tree took from the request to its end.
    pub(super) fn took_ms(&self, now: u64) -> Option<u64> {
        self.asked_at.map(|asked_at| now.saturating_sub(asked_at))
    }

    /// Begins the stop, or hurries it: asking again without force changes nothing.
    pub(super) fn ask(&mut self, why: Option<KeeperStop>, force: bool, term_ms: u64, leaf: Option<&Leaf>) {
        let now = clock::awake_ms();
        if self.is_held {
            self.hold(false, leaf);
        }
        if self.asked_at.is_none() {
            self.asked_at = Some(now);
            self.keeper_stop = why;
        }
        match (self.stage, force || term_ms == 0) {
            (Stage::Killing { .. }, _) | (Stage::Terming { .. }, false) => {}
            (_, true) => self.kill(now, leaf),
            (_, false) => {
                self.climb(Rung::Term);
                self.last = tree::signal(self.keeper, Some(Signal::TERM), &mut self.roll);
                // A stopped process acts on TERM only when it goes on.
                tree::signal(self.keeper, Some(Signal::CONT), &mut self.roll);
                self.stage = Stage::Terming { until: now.saturating_add(term_ms) };
            }
        }
    }

    /// Makes the whole tree hold still, or lets it go on. Reports whether it could be: not once it is being stopped.
    pub(super) fn hold(&mut self, still: bool, leaf: Option<&Leaf>) -> bool {
        if self.is_asked() {
            return false;
        }
        self.is_held = still;
        let frozen = leaf.is_some_and(|leaf| if still { leaf.freeze() } else { leaf.thaw() }.is_ok());
        if !frozen {
            self.hold_each(still);
        }
        true
    }

    /// Stops each by a signal, until no newcomer is met: a process that was not stopped yet may have started another.
    fn hold_each(&mut self, still: bool) {
        let signal = if still { Signal::STOP } else { Signal::CONT };
        let mut roll = Roll::default();
        for _ in 0..HOLD_PASSES_MAX {
            if tree::signal(self.keeper, Some(signal), &mut roll).fresh == 0 {
                break;
            }
        }
    }

    /// Takes note that the leader is gone.
    pub(super) fn leader_exited(&mut self, leftover_ms: u64) {
        if self.stage == Stage::Running {
            self.stage = Stage::Leftovers { until: clock::awake_ms().saturating_add(leftover_ms) };
        }
    }

    /// Does what is due now. Called after the dead were reaped and some were left. Reports whether a rung was climbed.
    pub(super) fn advance(&mut self, leaf: Option<&Leaf>) -> bool {
        let now = clock::awake_ms();
        match self.stage {
            Stage::Leftovers { until } if now >= until => {
                // Named first: in a namespace the first death is everybody's, and the dead have no command line.
                tree::signal(self.keeper, None, &mut self.roll);
                self.kill(now, leaf);
                self.leftovers = std::mem::take(&mut self.roll.processes);
                true
            }
            Stage::Terming { until } if now >= until => {
                self.kill(now, leaf);
                true
            }
            Stage::Killing { .. } => {
                self.kill_once(leaf);
                false
            }
            Stage::Running | Stage::Leftovers { .. } | Stage::Terming { .. } => false,
        }
    }

    /// Returns how long the keeper may sleep, if not until something happens.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        let now = clock::awake_ms();
        match self.stage {
            Stage::Running => None,
            Stage::Leftovers { until } | Stage::Terming { until } => Some(until.saturating_sub(now)),
            Stage::Killing { .. } if self.is_stuck(now) => Some(STUCK_PAUSE_MS),
            // Newcomers were met: there may be more.
            Stage::Killing { .. } if self.last.fresh > 0 => Some(0),
            Stage::Killing { .. } => Some(KILL_PAUSE_MS),
        }
    }

    fn kill(&mut self, now: u64, leaf: Option<&Leaf>) {
        self.climb(Rung::Kill);
        self.stage = Stage::Killing { since: now };
        if let Some(leaf) = leaf {
            // Frozen first: nothing of it acts any more, and who is in it stays to be counted.
            let _ = leaf.freeze();
        }
        if leaf.is_some() || self.dies_as_one {
            tree::signal(self.keeper, None, &mut self.roll);
        }
        self.kill_once(leaf);
    }

    fn kill_once(&mut self, leaf: Option<&Leaf>) {
        if let Some(leaf) = leaf {
            let _ = leaf.kill();
        }
        self.last = tree::signal(self.keeper, Some(Signal::KILL), &mut self.roll);
        // Some are left, and none of them can be seen.
        if self.last.alive == 0 {
            self.children.kill();
        }
    }

    pub(super) fn climb(&mut self, rung: Rung) {
        if self.rungs.len() >= RUNGS_MAX && rung == Rung::Interrupt {
            return;
        }
        self.rungs.push(RungTaken { rung, at: Timestamp(clock::wall_ms()) });
    }
}
