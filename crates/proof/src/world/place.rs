//! Where an attempt lives on a host, and how its keeper behaves.
//!
//! A place has perhaps a tree with its shim and its guard, and an exit record. A shim obeys the newest claim it has heard of and stops
//! its tree rung by rung. When the shim dies, the guard ends the tree; when both die, the tree is an orphan, and a sweep kills what it can
//! find of it. What the leader of a tree does is the simulation's, as `P`.

use std::collections::BTreeMap;

use lastword_core::limits::Limit;
use lastword_core::outcome::{Budget, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt, Rung, RungTaken, Tree as TreeId};
use lastword_core::report::Found;
use lastword_core::{AttemptNo, Awake, Epoch, Job, JobId, Now};

use super::host::{Host, boot_id};

/// An attempt of a job, on the host with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) job: JobId,
    pub(crate) attempt: AttemptNo,
    pub(crate) host: usize,
}

/// All places of a schedule.
pub(crate) type Places<P> = BTreeMap<Key, Place<P>>;

/// A place.
pub(crate) struct Place<P> {
    /// The newest claim its keeper has heard of.
    epoch: Epoch,
    /// Nothing can be started here any more.
    pub(crate) closed: bool,
    /// Its tree, once there was one.
    pub(crate) tree: Option<Tree<P>>,
    /// The exit record.
    record: Option<Record>,
}

/// An exit record.
struct Record {
    receipt: Receipt,
    by: Writer,
}

#[derive(Clone, Copy)]
enum Writer {
    /// The nursery: nothing was started.
    Nursery,
    /// The shim or the guard, which saw that the tree is empty.
    Keeper,
    /// A sweep, because there was no keeper.
    Sweep,
}

/// A tree, while it lives and afterwards.
pub(crate) struct Tree<P> {
    pub(crate) alive: bool,
    pub(crate) shim: bool,
    guard: bool,
    /// Shim and guard were killed at once: nothing guarantees that the tree ends.
    orphan: bool,
    pid: i32,
    boot: u32,
    /// When it was launched, by the awake clock and by the schedule's.
    pub(crate) launched: Awake,
    pub(crate) launched_at: u64,
    /// Since when neither shim nor guard is there.
    pub(crate) gone_at: Option<u64>,
    pub(crate) deadline: Option<Awake>,
    /// When its keeper ends it unless a lease is renewed before, by the schedule's clock.
    pub(crate) lease_until: Option<u64>,
    stop: Option<Stop>,
    /// Rungs climbed so far.
    pub(crate) rungs: Vec<Rung>,
    pub(crate) leader: P,
}

struct Stop {
    force: bool,
    why: Option<KeeperStop>,
    /// Counts orders, so that a climb of a former one is recognised.
    run: u32,
}

impl<P> Tree<P> {
    /// Returns a tree that was just launched.
    pub(crate) fn new(host: &Host, now: u64, pid: i32, leader: P) -> Tree<P> {
        Tree {
            alive: true,
            shim: true,
            guard: true,
            orphan: false,
            pid,
            boot: host.boot,
            launched: host.awake(now),
            launched_at: now,
            gone_at: None,
            deadline: None,
            lease_until: None,
            stop: None,
            rungs: Vec::new(),
            leader,
        }
    }

    /// Returns its identity.
    pub(crate) fn id(&self) -> TreeId {
        TreeId {
            boot: boot_id(self.boot).to_owned(),
            pid: self.pid,
            start_ticks: self.launched.0,
            level: Level::Subreaper,
            withheld: None,
        }
    }

    /// Returns for how long it has run, by the awake clock of its host.
    pub(crate) fn age(&self, awake: Awake) -> u64 {
        awake.0.saturating_sub(self.launched.0)
    }

    /// Reports whether its end is still some keeper's promise.
    pub(crate) fn is_kept(&self) -> bool {
        self.shim || self.guard
    }
}

impl<P> Default for Place<P> {
    fn default() -> Place<P> {
        Place { epoch: Epoch(0), closed: false, tree: None, record: None }
    }
}

impl<P> Place<P> {
    /// Reports whether something of it runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.alive)
    }

    /// Reports whether something of it may run that no keeper has promised to end.
    pub(crate) fn is_orphan(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.orphan)
    }

    /// Returns since when its keeper is gone.
    pub(crate) fn gone_at(&self) -> Option<u64> {
        self.tree.as_ref().and_then(|tree| tree.gone_at)
    }

    /// Returns its tree, if it lives and has a shim to talk to.
    pub(crate) fn kept(&mut self) -> Option<&mut Tree<P>> {
        self.tree.as_mut().filter(|tree| tree.alive && tree.shim)
    }

    /// Hears a claim; reports whether it is the newest, which is obeyed.
    pub(crate) fn obeys(&mut self, epoch: Epoch) -> bool {
        let newest = epoch >= self.epoch;
        self.epoch = self.epoch.max(epoch);
        newest
    }

    /// Starts a tree under a claim. From here on nothing else can be started.
    pub(crate) fn launch(&mut self, epoch: Epoch, tree: Tree<P>) -> TreeId {
        (self.closed, self.epoch) = (true, self.epoch.max(epoch));
        let id = tree.id();
        self.tree = Some(tree);
        id
    }

    /// A launch fails: nothing was started and nothing can be.
    pub(crate) fn launch_failed(&mut self) {
        self.closed = true;
        self.record = Some(Record { receipt: Receipt::bare(Proof::NeverStarted), by: Writer::Nursery });
    }

    /// Finds out what became of the attempt. If nothing was started, nothing can be from here on; if its keeper is gone, a sweep kills what it
    /// finds, unless the tree `escapes`.
    pub(crate) fn locate(&mut self, job: &Job, attempt: AttemptNo, host: &Host, escapes: bool) -> Found {
        if let Some(record) = &self.record {
            let receipt = Box::new(record.receipt.clone());
            return match record.by {
                Writer::Nursery => Found::NeverStarted,
                Writer::Keeper => Found::Ended(receipt),
                Writer::Sweep => Found::Vanished(receipt),
            };
        }
        match &self.tree {
            None => {
                self.closed = true;
                let known = job.attempts.iter().find(|known| known.no == attempt);
                let intended = known.and_then(|known| known.boot.as_deref());
                // A claim may be lost with the power: only of this boot can be said that it never ran.
                match intended.is_some_and(|intended| intended != host.boot_id()) {
                    true => Found::OtherBoot,
                    false => Found::NeverStarted,
                }
            }
            Some(tree) if tree.boot != host.boot => Found::OtherBoot,
            Some(tree) if tree.is_kept() => Found::Alive { tree: tree.id(), awake: tree.launched },
            Some(_) => Found::Vanished(self.sweep(escapes)),
        }
    }

    /// Kills what can be found of a tree without a keeper, and records that.
    fn sweep(&mut self, escapes: bool) -> Box<Receipt> {
        let receipt = Receipt::bare(Proof::BestEffort);
        self.record = Some(Record { receipt: receipt.clone(), by: Writer::Sweep });
        if let Some(tree) = &mut self.tree {
            tree.alive &= escapes;
        }
        Box::new(receipt)
    }

    /// Begins to stop the tree; returns the number of the climb that is to begin, if one is. A stop that is under way goes on, but force hurries
    /// it. The first reason stands.
    pub(crate) fn stop(&mut self, why: Option<KeeperStop>, force: bool) -> Option<u32> {
        let stop = &mut self.kept()?.stop;
        match stop {
            Some(stop) => {
                stop.why = stop.why.or(why);
                if !force || stop.force {
                    return None;
                }
                (stop.force, stop.run) = (true, stop.run + 1);
                Some(stop.run)
            }
            none => Some(none.insert(Stop { force, why, run: 0 }).run),
        }
    }

    /// Climbs the next rung of `ladder`, or the last one by force. Returns it; none if there is none, or if the climb is a former one.
    pub(crate) fn climb(&mut self, run: u32, ladder: &[Rung]) -> Option<Rung> {
        let tree = self.kept()?;
        let stop = tree.stop.as_ref().filter(|stop| stop.run == run)?;
        let next = match tree.rungs.last() {
            Some(Rung::Kill) => return None,
            _ if stop.force => Rung::Kill,
            None => *ladder.first()?,
            Some(last) => *ladder.get(ladder.iter().position(|rung| rung == last)? + 1)?,
        };
        tree.rungs.push(next);
        Some(next)
    }

    /// The tree is empty, and its shim or its guard records that.
    pub(crate) fn emptied(&mut self, exit: Option<Exit>, why: Option<KeeperStop>, now: u64, at: Now) {
        let Some(tree) = self.tree.as_mut().filter(|tree| tree.is_kept()) else { return };
        let noted = tree.stop.as_ref().and_then(|stop| stop.why);
        let is_asked = tree.stop.is_some() || !tree.rungs.is_empty() || why.is_some();
        let receipt = Receipt {
            level: Level::Subreaper,
            exit,
            exited_first: exit.is_some() && !is_asked,
            rungs: tree.rungs.iter().map(|rung| RungTaken { rung: *rung, at: at.wall }).collect(),
            keeper_stop: why.or(noted),
            empty_at: Some(at.awake),
            ..Receipt::bare(Proof::NoChildren)
        };
        self.record = Some(Record { receipt, by: Writer::Keeper });
        (tree.alive, tree.shim, tree.guard, tree.gone_at) = (false, false, false, Some(now));
    }

    /// The shim is killed, and perhaps the guard with it. Reports whether there was a shim.
    pub(crate) fn kill_keeper(&mut self, both: bool, now: u64) -> bool {
        let Some(tree) = self.kept() else { return false };
        tree.shim = false;
        if both {
            (tree.guard, tree.orphan, tree.gone_at) = (false, true, Some(now));
        }
        true
    }

    /// The guard has ended the tree of its dead shim; reports whether there was one.
    pub(crate) fn guard_ends(&mut self, now: u64, at: Now) -> bool {
        let ends = self.tree.as_ref().is_some_and(|tree| tree.alive && tree.guard && !tree.shim);
        if ends {
            self.emptied(None, None, now, at);
        }
        ends
    }

    /// The machine is switched off under it.
    pub(crate) fn power_off(&mut self, now: u64) {
        if let Some(tree) = self.tree.as_mut().filter(|tree| tree.alive || tree.is_kept()) {
            (tree.alive, tree.shim, tree.guard) = (false, false, false);
            tree.gone_at.get_or_insert(now);
        }
    }
}

/// Returns what a keeper records about a stop that the journal may never hear of.
pub(crate) fn keeper_stop(cause: Cause) -> KeeperStop {
    match cause {
        Cause::Limit(Limit::Wall) => KeeperStop::Deadline,
        Cause::Limit(Limit::Stall) => KeeperStop::LocalStall,
        Cause::Limit(limit) => KeeperStop::LocalBudget(match Outcome::from(limit) {
            Outcome::OverBudget(budget) => budget,
            _ => Budget::Output,
        }),
        _ => KeeperStop::LocalCancel,
    }
}
