//! The places where attempts live, with their keepers: the truth that no log can argue with.
//!
//! A place has perhaps a tree with its shim and its guard, and an exit record. A shim obeys the newest claim it has heard of, ends
//! its tree by rungs when it is told to or when its deadline passes, and takes each input once, in the order of their numbers. When
//! a shim dies, its guard ends the tree; when both die, nobody does.

use std::sync::Arc;

use lastword_core::limits::Limit;
use lastword_core::outcome::{Budget, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt, Rung, RungTaken, Tree};
use lastword_core::report::Found;
use lastword_core::{AttemptNo, Awake, Epoch, InputNo, Job, JobId};
use tokio::sync::Notify;

use super::plan::Program;
use super::world::{Doing, World};

/// Which attempt of which job.
pub(super) type Key = (JobId, AttemptNo);

/// Where an attempt lives.
#[derive(Default)]
pub(super) struct Place {
    /// The newest claim its keeper has heard of.
    epoch: Epoch,
    /// Nothing can be started here any more.
    closed: bool,
    /// Its tree, once there was one.
    pub(super) tree: Option<Living>,
    /// What its keeper, or a sweep, wrote at the end.
    pub(super) record: Option<Record>,
    /// Wakes whoever watches.
    pub(super) news: Arc<Notify>,
}

/// An exit record.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) receipt: Receipt,
    /// Nothing of it was started, and why.
    pub(super) failed: bool,
    /// It was written by a sweep, because there was no keeper to do it.
    swept: bool,
}

/// A tree, while it lives and afterwards.
pub(super) struct Living {
    pub(super) alive: bool,
    pub(super) shim: bool,
    pub(super) guard: bool,
    /// Both of them were killed, and nobody promises anything about it.
    pub(super) orphan: bool,
    pid: i32,
    boot: u32,
    /// When it was launched, by the awake clock and by the world's.
    launched: Awake,
    pub(super) launched_at: u64,
    pub(super) program: Program,
    deadline: Option<Awake>,
    stop: Option<Stopping>,
    /// The newest number that was taken.
    pub(super) taken: u32,
    /// What the leader has read.
    pub(super) read: Vec<(InputNo, String)>,
    /// Rungs climbed so far, for whoever watches.
    pub(super) rungs: Vec<Rung>,
    /// Since when neither shim nor guard is there.
    pub(super) gone_at: Option<u64>,
}

struct Stopping {
    force: bool,
    why: Option<KeeperStop>,
    rung: Option<Rung>,
    /// Counts orders, so that a climb of a former one is recognised.
    run: u32,
}

impl Place {
    /// Reports whether something of it runs.
    pub(super) fn is_alive(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.alive)
    }

    /// Reports whether whoever kept its tree is gone, and since when.
    pub(super) fn gone_at(&self) -> Option<u64> {
        self.tree.as_ref().and_then(|tree| tree.gone_at)
    }

    fn kept(&mut self) -> Option<&mut Living> {
        self.tree.as_mut().filter(|tree| tree.alive && tree.shim)
    }
}

impl Living {
    /// Returns the tree in the words of core.
    pub(super) fn name(&self) -> Tree {
        Tree {
            boot: boot_name(self.boot),
            pid: self.pid,
            start_ticks: self.launched.0,
            level: Level::Subreaper,
            withheld: None,
        }
    }

    /// Returns how many bytes it has written by now.
    pub(super) fn written(&self, now: u64) -> u64 {
        let until = self.gone_at.unwrap_or(now).min(now);
        self.program.rate * until.saturating_sub(self.launched_at).min(self.program.writes_ms)
    }

    /// Returns since when it has written nothing.
    pub(super) fn silent_since(&self, now: u64) -> u64 {
        match self.program.rate {
            0 => self.launched_at,
            _ => now.min(self.launched_at + self.program.writes_ms),
        }
    }

    /// Returns for how long it has run, by the awake clock.
    pub(super) fn age(&self, awake: Awake) -> u64 {
        awake.0.saturating_sub(self.launched.0)
    }
}

/// Returns the name of a boot.
pub(super) fn boot_name(boot: u32) -> String {
    format!("boot-{boot}")
}

/// What came of a launch.
pub(super) enum Launched {
    /// The tree is there.
    Tree(Tree, Awake),
    /// Nothing was started, and nothing will be.
    Failed(String),
    /// Another launch was there before: this is what is to be said of it.
    Found(Found),
}

impl World {
    /// Starts a tree, if the place is free.
    pub(super) fn launch(&mut self, job: &Job, epoch: Epoch, attempt: AttemptNo) -> Launched {
        let key = (job.id, attempt);
        let (fails, pid) = (self.random.chance(5), self.next_pid());
        let (awake, now, boot) = (self.awake(), self.now(), self.boot);
        let place = self.places.entry(key).or_default();
        if place.closed || place.tree.is_some() {
            return match self.locate(job, attempt) {
                Found::NeverStarted => Launched::Failed("the place is closed".to_owned()),
                found => Launched::Found(found),
            };
        }
        let Some(spec) = job.spec.clone() else { return Launched::Failed("no spec".to_owned()) };
        if fails {
            place.closed = true;
            let receipt = Receipt::bare(Proof::NeverStarted);
            place.record = Some(Record { receipt, failed: true, swept: false });
            return Launched::Failed("no such program".to_owned());
        }
        (place.closed, place.epoch) = (true, epoch);
        let program = Program::draw(&mut self.random, &spec);
        let lives_ms = program.lives_ms;
        let deadline = job.limits.get(Limit::Wall).map(|ms| awake.plus_ms(ms));
        let tree = Living {
            alive: true,
            shim: true,
            guard: true,
            orphan: false,
            pid,
            boot,
            launched: awake,
            launched_at: now,
            program,
            deadline,
            stop: None,
            taken: 0,
            read: Vec::new(),
            rungs: Vec::new(),
            gone_at: None,
        };
        let name = tree.name();
        place.tree = Some(tree);
        self.say(|world| format!("tree of {} attempt {attempt} lives", world.name(key.0)));
        self.check_launch(key);
        if let Some(ms) = lives_ms {
            let exit = self.places[&key].tree.as_ref().map_or(Exit::Code(0), |tree| tree.program.exit);
            self.after(ms.max(1), Doing::Exit(key, exit));
        }
        self.await_deadline(key);
        Launched::Tree(name, awake)
    }

    /// Finds out what became of an attempt. If nothing was started, nothing can be from here on; if its keeper is gone, what can be
    /// found of it is killed.
    pub(super) fn locate(&mut self, job: &Job, attempt: AttemptNo) -> Found {
        let boot = self.boot;
        let key = (job.id, attempt);
        let intended =
            job.attempts.iter().find(|known| known.no == attempt).and_then(|known| known.boot.clone());
        let place = self.places.entry(key).or_default();
        if let Some(record) = place.record.clone() {
            let receipt = Box::new(record.receipt);
            return match record {
                Record { failed: true, .. } => Found::NeverStarted,
                Record { swept: true, .. } => Found::Vanished(receipt),
                _ => Found::Ended(receipt),
            };
        }
        match &place.tree {
            None => {
                place.closed = true;
                match intended.is_some_and(|intended| *intended != *boot_name(boot)) {
                    true => Found::OtherBoot,
                    false => Found::NeverStarted,
                }
            }
            Some(tree) if tree.boot != boot => Found::OtherBoot,
            Some(tree) if tree.shim || tree.guard => Found::Alive { tree: tree.name(), awake: tree.launched },
            Some(_) => Found::Vanished(self.sweep_place(key)),
        }
    }

    /// Kills what can be found of a tree without a keeper, and records that.
    fn sweep_place(&mut self, key: Key) -> Box<Receipt> {
        let escapes = self.random.chance(15);
        let receipt = Receipt::bare(Proof::BestEffort);
        if let Some(place) = self.places.get_mut(&key) {
            place.record = Some(Record { receipt: receipt.clone(), failed: false, swept: true });
            if let Some(tree) = &mut place.tree {
                tree.alive &= escapes;
            }
        }
        Box::new(receipt)
    }

    /// Hears a claim; reports whether it is the newest, which is obeyed.
    pub(super) fn obeys(&mut self, key: Key, epoch: Epoch) -> bool {
        let place = self.places.entry(key).or_default();
        let newest = epoch >= place.epoch;
        place.epoch = place.epoch.max(epoch);
        newest
    }

    /// A shim is told to stop its tree.
    pub(super) fn stop(&mut self, key: Key, cause: Cause, force: bool, local: bool) {
        // What the keeper notes, because the journal may never hear of it.
        let why = local.then(|| match cause {
            Cause::Limit(Limit::Wall) => KeeperStop::Deadline,
            Cause::Limit(Limit::Stall) => KeeperStop::LocalStall,
            Cause::Limit(limit) => KeeperStop::LocalBudget(match Outcome::from(limit) {
                Outcome::OverBudget(budget) => budget,
                _ => Budget::Output,
            }),
            _ => KeeperStop::LocalCancel,
        });
        self.begin_stop(key, why, force);
    }

    fn begin_stop(&mut self, key: Key, why: Option<KeeperStop>, force: bool) {
        let Some(tree) = self.places.get_mut(&key).and_then(Place::kept) else { return };
        let run = match &mut tree.stop {
            Some(stop) => {
                stop.why = stop.why.or(why);
                if !force || stop.force {
                    return;
                }
                (stop.force, stop.run) = (true, stop.run + 1);
                stop.run
            }
            none => none.insert(Stopping { force, why, rung: None, run: 0 }).run,
        };
        self.climb(key, run);
    }

    /// A stop climbs its next rung.
    pub(super) fn climb(&mut self, key: Key, run: u32) {
        let grace = self.term_ms(key.0);
        let Some(place) = self.places.get_mut(&key) else { return };
        let Some(tree) = place.tree.as_mut().filter(|tree| tree.alive && tree.shim) else { return };
        let obeys_ms = tree.program.obeys_ms;
        let Some(stop) = tree.stop.as_mut().filter(|stop| stop.run == run) else { return };
        let rung = match stop.rung {
            Some(Rung::Kill) => return,
            Some(Rung::Term) => Rung::Kill,
            _ if stop.force => Rung::Kill,
            _ => Rung::Term,
        };
        stop.rung = Some(rung);
        tree.rungs.push(rung);
        place.news.notify_waiters();
        match rung {
            Rung::Kill => {
                let ms = 1 + self.random.below(4);
                self.after(ms, Doing::Exit(key, Exit::Signal(9)));
            }
            _ => {
                if let Some(ms) = obeys_ms {
                    self.after(ms.max(1), Doing::Exit(key, Exit::Signal(15)));
                }
                self.after(grace.max(1), Doing::Climb(key, run));
            }
        }
    }

    /// The last process of a tree is gone, and its shim says so.
    pub(super) fn exit(&mut self, key: Key, exit: Exit) {
        if self.places.get_mut(&key).and_then(Place::kept).is_some() {
            self.emptied(key, Some(exit));
        }
    }

    /// A guard whose shim is gone has ended the tree.
    pub(super) fn guard_ends(&mut self, key: Key) {
        let tree = self.places.get(&key).and_then(|place| place.tree.as_ref());
        if tree.is_some_and(|tree| tree.alive && tree.guard && !tree.shim) {
            self.emptied(key, None);
        }
    }

    fn emptied(&mut self, key: Key, exit: Option<Exit>) {
        let (now, at) = (self.now(), self.wall());
        let Some(place) = self.places.get_mut(&key) else { return };
        let Some(tree) = &mut place.tree else { return };
        let stop = tree.stop.as_ref();
        place.record = Some(Record {
            receipt: Receipt {
                level: Level::Subreaper,
                exit,
                rungs: tree.rungs.iter().map(|rung| RungTaken { rung: *rung, at }).collect(),
                keeper_stop: stop.and_then(|stop| stop.why),
                ..Receipt::bare(Proof::NoChildren)
            },
            failed: false,
            swept: false,
        });
        (tree.alive, tree.shim, tree.guard, tree.gone_at) = (false, false, false, Some(now));
        place.news.notify_waiters();
        self.say(|world| format!("tree of {} attempt {} is empty: {exit:?}", world.name(key.0), key.1));
    }

    /// A keeper dies: its shim, and sometimes its guard as well.
    pub(super) fn keeper_dies(&mut self, key: Key, both: bool) {
        let now = self.now();
        let Some(place) = self.places.get_mut(&key) else { return };
        let Some(tree) = place.tree.as_mut().filter(|tree| tree.alive && tree.shim) else { return };
        tree.shim = false;
        if both {
            (tree.guard, tree.orphan, tree.gone_at) = (false, true, Some(now));
        }
        place.news.notify_waiters();
        self.say(|world| {
            let who = if both { "shim and guard" } else { "shim" };
            format!("{who} of {} attempt {} killed", world.name(key.0), key.1)
        });
        if !both {
            let ms = 1 + self.random.below(60);
            self.after(ms, Doing::GuardEnds(key));
        }
    }

    /// The host boots: nothing that ran runs any more.
    pub(super) fn all_trees_die(&mut self) {
        let now = self.now();
        for place in self.places.values_mut() {
            if let Some(tree) = place.tree.as_mut().filter(|tree| tree.alive || tree.shim || tree.guard) {
                (tree.alive, tree.shim, tree.guard) = (false, false, false);
                tree.gone_at.get_or_insert(now);
            }
        }
    }

    /// A shim is told its deadline.
    pub(super) fn set_deadline(&mut self, key: Key, at: Option<Awake>) {
        if let Some(tree) = self.places.get_mut(&key).and_then(Place::kept) {
            tree.deadline = at;
            self.await_deadline(key);
        }
    }

    fn await_deadline(&mut self, key: Key) {
        let awake = self.awake();
        let deadline = self.places.get_mut(&key).and_then(Place::kept).and_then(|tree| tree.deadline);
        if let Some(at) = deadline {
            self.after(at.0.saturating_sub(awake.0), Doing::Deadline(key, at));
        }
    }

    /// The moment of a deadline has come; it counts if it is still the one.
    pub(super) fn deadline_comes(&mut self, key: Key, at: Awake) {
        let tree = self.places.get_mut(&key).and_then(Place::kept);
        if tree.is_some_and(|tree| tree.deadline == Some(at)) {
            self.begin_stop(key, Some(KeeperStop::Deadline), false);
        }
    }

    /// A shim is given an input. A number that was taken, or that comes after a later one, is not taken again.
    pub(super) fn input(&mut self, key: Key, no: InputNo, text: &str, eof: bool) {
        let Some(place) = self.places.get_mut(&key) else { return };
        let Some(tree) = place.tree.as_mut().filter(|tree| tree.alive && tree.shim) else { return };
        if no.0 <= tree.taken {
            return;
        }
        tree.taken = no.0;
        tree.read.push((no, text.to_owned()));
        let enough = tree.program.reads.is_some_and(|count| tree.read.len() >= count) || eof;
        place.news.notify_waiters();
        self.check_inputs(key);
        if enough {
            let ms = 1 + self.random.below(30);
            self.after(ms, Doing::Exit(key, Exit::Code(0)));
        }
    }

    fn term_ms(&self, job: JobId) -> u64 {
        let spec = self.witness.get(&job).and_then(|known| known.job.spec.as_ref());
        spec.map_or(100, |spec| spec.ladder.term_ms)
    }
}
