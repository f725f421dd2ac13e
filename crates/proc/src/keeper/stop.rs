//! Stopping a tree rung by rung, each with its grace, until it is empty; and killing what an exited leader left behind.

use lastword_core::ids::Timestamp;
use lastword_core::receipt::{KeeperStop, Process, Rung, RungTaken};
use rustix::process::Signal;

use crate::clock;
use crate::level::cgroup::Leaf;
use crate::tree::{self, OwnChildren, Pass, SeenProcesses};

/// How long a tree may survive KILL before it is reported as stuck: in uninterruptible sleep, or owned by another user.
pub(super) const STUCK_AFTER_MS: u64 = 10_000;

/// Pause between kills of a stuck tree.
pub(super) const STUCK_PAUSE_MS: u64 = 200;

/// Passes to freeze a tree with signals. Only a tree that forks as fast as we find its processes needs more than two.
const FREEZE_PASSES_MAX: u32 = 32;

/// Pause after sending KILL before the next pass; a death wakes the keeper earlier.
pub(super) const KILL_PAUSE_MS: u64 = 1;

/// Rungs recorded. Only interrupts can be requested without limit; further ones are still sent.
const RUNGS_MAX: usize = 100;

/// How far a stop has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not being stopped.
    Running,
    /// The leader has exited; the rest of the tree has until then, by the awake clock.
    Leftovers { until: u64 },
    /// TERM was sent; KILL follows at that time.
    Terming { until: u64 },
    /// KILL is sent repeatedly.
    Killing { since: u64 },
}

/// The progress of a stop.
#[derive(Debug)]
pub(super) struct Stop {
    keeper: i32,
    children: OwnChildren,
    stage: Stage,
    requested_at: Option<u64>,
    pub(super) rungs: Vec<RungTaken>,
    pub(super) seen: SeenProcesses,
    pub(super) leftovers: Vec<Process>,
    /// The first KILL ends the whole tree, as in a namespace: its processes must be counted before.
    pub(super) dies_as_one: bool,
    /// The first reason to stop, if it was the keeper's own.
    pub(super) keeper_stop: Option<KeeperStop>,
    /// The whole tree is frozen.
    is_frozen: bool,
    /// The result of the last pass.
    pub(super) last: Pass,
}

impl Stop {
    pub(super) fn new(keeper: i32) -> Stop {
        Stop {
            keeper,
            children: OwnChildren::open(),
            stage: Stage::Running,
            requested_at: None,
            rungs: Vec::new(),
            seen: SeenProcesses::default(),
            leftovers: Vec::new(),
            dies_as_one: false,
            keeper_stop: None,
            is_frozen: false,
            last: Pass::default(),
        }
    }

    /// Reports whether the tree is being stopped.
    pub(super) fn is_requested(&self) -> bool {
        self.requested_at.is_some()
    }

    /// Reports whether nothing has asked the tree to stop, nor interrupted its leader.
    pub(super) fn is_untouched(&self) -> bool {
        self.requested_at.is_none() && self.rungs.is_empty()
    }

    /// Reports whether the tree has survived KILL for so long that a person should know.
    pub(super) fn is_stuck(&self, now: u64) -> bool {
        matches!(self.stage, Stage::Killing { since } if now.saturating_sub(since) >= STUCK_AFTER_MS)
    }

    /// Returns the time since the stop was requested.
    pub(super) fn took_ms(&self, now: u64) -> Option<u64> {
        self.requested_at.map(|requested_at| now.saturating_sub(requested_at))
    }

    /// Starts the stop, or escalates it with `force`; a repeated request without force changes nothing.
    pub(super) fn request(
        &mut self,
        why: Option<KeeperStop>,
        force: bool,
        term_ms: u64,
        leaf: Option<&Leaf>,
    ) {
        let now = clock::awake_ms();
        if self.is_frozen {
            self.freeze(false, leaf);
        }
        if self.requested_at.is_none() {
            self.requested_at = Some(now);
            self.keeper_stop = why;
        }
        match (self.stage, force || term_ms == 0) {
            (Stage::Killing { .. }, _) | (Stage::Terming { .. }, false) => {}
            (_, true) => self.kill(now, leaf),
            (_, false) => {
                self.climb(Rung::Term);
                self.last = tree::signal(self.keeper, Some(Signal::TERM), &mut self.seen);
                // A stopped process handles TERM only once it continues.
                tree::signal(self.keeper, Some(Signal::CONT), &mut self.seen);
                self.stage = Stage::Terming { until: now.saturating_add(term_ms) };
            }
        }
    }

    /// Freezes or thaws the whole tree. Returns `false` if it is being stopped.
    pub(super) fn freeze(&mut self, on: bool, leaf: Option<&Leaf>) -> bool {
        if self.is_requested() {
            return false;
        }
        self.is_frozen = on;
        let frozen = leaf.is_some_and(|leaf| if on { leaf.freeze() } else { leaf.thaw() }.is_ok());
        if !frozen {
            self.freeze_each(on);
        }
        true
    }

    /// Freezes each process with a signal, until a pass finds none that is new: one not yet frozen may have forked.
    fn freeze_each(&mut self, on: bool) {
        let signal = if on { Signal::STOP } else { Signal::CONT };
        let mut seen = SeenProcesses::default();
        for _ in 0..FREEZE_PASSES_MAX {
            if tree::signal(self.keeper, Some(signal), &mut seen).fresh == 0 {
                break;
            }
        }
    }

    /// Records that the leader has exited.
    pub(super) fn leader_exited(&mut self, leftover_ms: u64) {
        if self.stage == Stage::Running {
            self.stage = Stage::Leftovers { until: clock::awake_ms().saturating_add(leftover_ms) };
        }
    }

    /// Takes the next step if it is due. Called after reaping, while processes are left. Returns whether a new rung was climbed.
    pub(super) fn advance(&mut self, leaf: Option<&Leaf>) -> bool {
        let now = clock::awake_ms();
        match self.stage {
            Stage::Leftovers { until } if now >= until => {
                // Recorded first: in a namespace the first kill ends them all, and the dead have no command line.
                tree::signal(self.keeper, None, &mut self.seen);
                self.kill(now, leaf);
                self.leftovers = std::mem::take(&mut self.seen.processes);
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

    /// Returns how long the keeper may sleep; `None` means until something happens.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        let now = clock::awake_ms();
        match self.stage {
            Stage::Running => None,
            Stage::Leftovers { until } | Stage::Terming { until } => Some(until.saturating_sub(now)),
            Stage::Killing { .. } if self.is_stuck(now) => Some(STUCK_PAUSE_MS),
            // The last pass found new processes, so there may be more.
            Stage::Killing { .. } if self.last.fresh > 0 => Some(0),
            Stage::Killing { .. } => Some(KILL_PAUSE_MS),
        }
    }

    fn kill(&mut self, now: u64, leaf: Option<&Leaf>) {
        self.climb(Rung::Kill);
        self.stage = Stage::Killing { since: now };
        if let Some(leaf) = leaf {
            // Frozen first, so that its processes stop acting and can still be counted.
            let _ = leaf.freeze();
        }
        if leaf.is_some() || self.dies_as_one {
            // Frozen, or gone with the first KILL.
            tree::signal(self.keeper, None, &mut self.seen);
        } else {
            tree::record(self.keeper, &mut self.seen);
        }
        self.kill_once(leaf);
    }

    fn kill_once(&mut self, leaf: Option<&Leaf>) {
        if let Some(leaf) = leaf {
            let _ = leaf.kill();
        }
        self.last = tree::signal(self.keeper, Some(Signal::KILL), &mut self.seen);
        // Some are left, but none is visible in `/proc`.
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
