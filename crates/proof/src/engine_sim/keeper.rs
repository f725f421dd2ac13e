//! Keepers at work: launches and orders reach the place of an attempt, and its tree comes to its end.

use lastword_core::outcome::Cause;
use lastword_core::receipt::{Exit, KeeperStop, Rung};
use lastword_core::report::Found;
use lastword_core::{Awake, Epoch, InputNo, Job, JobId};

use super::plan::{Leader, Program};
use super::world::{Doing, LaunchOrder, Launched, World};
use crate::world::place::{Key, Tree, keeper_stop};

/// The rungs of a stop: only an agent's dialogue has more.
const LADDER: &[Rung] = &[Rung::Term, Rung::Kill];

impl World {
    /// Starts a tree, if the place is free.
    pub(super) fn launch(&mut self, order: &LaunchOrder) -> Launched {
        let LaunchOrder { job, attempt, host, .. } = order;
        let key = Key { job: job.id, attempt: *attempt, host: *host };
        let (fails, pid) = (self.random.chance(5), self.next_pid());
        let place = self.places.entry(key).or_default();
        if place.closed || place.tree.is_some() {
            return match self.locate(job, key) {
                Found::NeverStarted => Launched::Failed("the place is closed".to_owned()),
                found => Launched::Found(found),
            };
        }
        let Some(spec) = job.spec.clone() else { return Launched::Failed("no spec".to_owned()) };
        // An environment is a file of the host where the job was submitted.
        let elsewhere = !self.homes.contains(&(key.host, key.job));
        if fails || elsewhere {
            place.launch_failed();
            return Launched::Failed("no such program, or no environment".to_owned());
        }
        let program = Program::draw(&mut self.random, &spec);
        let (lives_ms, exit) = (program.lives_ms, program.exit);
        let mut tree = Tree::new(&self.hosts[key.host], self.now(), pid, Leader::new(program));
        let launched = tree.launched;
        tree.deadline = job.wall_left().map(|ms| launched.plus_ms(ms));
        let tree = self.places.entry(key).or_default().launch(order.epoch, tree);
        self.say(|world| format!("tree of {} attempt {attempt} lives on h{host}", world.name(key.job)));
        self.check_launch(key);
        if let Some(ms) = lives_ms {
            self.after(ms.max(1), Doing::Exit(key, exit));
        }
        self.await_deadline(key);
        Launched::Tree(tree, launched)
    }

    /// Finds out what became of an attempt.
    pub(super) fn locate(&mut self, job: &Job, key: Key) -> Found {
        let escapes = self.random.chance(15);
        self.places.entry(key).or_default().locate(job, key.attempt, &self.hosts[key.host], escapes)
    }

    /// Hears a claim; reports whether it is the newest, which is obeyed.
    pub(super) fn obeys(&mut self, key: Key, epoch: Epoch) -> bool {
        self.places.entry(key).or_default().obeys(epoch)
    }

    /// Returns the tree of a place that lives and has a shim.
    pub(super) fn kept(&mut self, key: Key) -> Option<&mut Tree<Leader>> {
        self.places.get_mut(&key)?.kept()
    }

    /// Wakes the watches of a place.
    pub(super) fn wake_watches(&self, key: Key) {
        if let Some(watches) = self.watches.get(&key) {
            watches.notify_waiters();
        }
    }

    /// A shim is told to stop its tree.
    pub(super) fn stop(&mut self, key: Key, cause: Cause, force: bool, local: bool) {
        // What the keeper records, because the journal may never hear of it.
        self.begin_stop(key, local.then(|| keeper_stop(cause)), force);
    }

    fn begin_stop(&mut self, key: Key, why: Option<KeeperStop>, force: bool) {
        let run = self.places.get_mut(&key).and_then(|place| place.stop(why, force));
        if let Some(run) = run {
            self.climb(key, run);
        }
    }

    /// A stop climbs its next rung.
    pub(super) fn climb(&mut self, key: Key, run: u32) {
        let Some(rung) = self.places.get_mut(&key).and_then(|place| place.climb(run, LADDER)) else { return };
        let obeys_ms = self.kept(key).and_then(|tree| tree.leader.program.obeys_ms);
        self.wake_watches(key);
        if rung == Rung::Kill {
            let ms = 1 + self.random.below(4);
            return self.after(ms, Doing::Exit(key, Exit::Signal(9)));
        }
        if let Some(ms) = obeys_ms {
            self.after(ms.max(1), Doing::Exit(key, Exit::Signal(15)));
        }
        let grace_ms = self.term_ms(key.job);
        self.after(grace_ms.max(1), Doing::Climb(key, run));
    }

    /// The last process of a tree is gone, and its shim records that.
    pub(super) fn exit(&mut self, key: Key, exit: Exit) {
        let (now, at) = (self.now(), self.hosts[key.host].clocks(self.now()));
        if self.kept(key).is_none() {
            return;
        }
        self.places.entry(key).or_default().emptied(Some(exit), None, now, at);
        self.wake_watches(key);
        self.say(|world| {
            format!("tree of {} attempt {} is empty: {exit:?}", world.name(key.job), key.attempt)
        });
    }

    /// A guard has ended the tree of its dead shim.
    pub(super) fn guard_ends(&mut self, key: Key) {
        let (now, at) = (self.now(), self.hosts[key.host].clocks(self.now()));
        if self.places.entry(key).or_default().guard_ends(now, at) {
            self.wake_watches(key);
            self.say(|world| {
                format!("the guard of {} attempt {} ended it", world.name(key.job), key.attempt)
            });
        }
    }

    /// A keeper dies: its shim, and sometimes its guard as well.
    pub(super) fn keeper_dies(&mut self, key: Key, both: bool) {
        let now = self.now();
        if !self.places.entry(key).or_default().kill_keeper(both, now) {
            return;
        }
        self.wake_watches(key);
        self.say(|world| {
            let what = if both { "shim and guard" } else { "shim" };
            format!("{what} of {} attempt {} killed", world.name(key.job), key.attempt)
        });
        if !both {
            let ms = 1 + self.random.below(60);
            self.after(ms, Doing::GuardEnds(key));
        }
    }

    /// A shim is told its deadline.
    pub(super) fn set_deadline(&mut self, key: Key, at: Option<Awake>) {
        if let Some(tree) = self.kept(key) {
            tree.deadline = at;
            self.await_deadline(key);
        }
    }

    fn await_deadline(&mut self, key: Key) {
        let awake = self.hosts[key.host].awake(self.now());
        let deadline = self.kept(key).and_then(|tree| tree.deadline);
        if let Some(at) = deadline {
            self.after(at.0.saturating_sub(awake.0), Doing::Deadline(key, at));
        }
    }

    /// The moment of a deadline has come; it counts if it is still the one.
    pub(super) fn deadline_comes(&mut self, key: Key, at: Awake) {
        let tree = self.kept(key);
        if tree.is_some_and(|tree| tree.deadline == Some(at)) {
            self.begin_stop(key, Some(KeeperStop::Deadline), false);
        }
    }

    /// A shim is given an input. A number that was taken, or that comes after a later one, is not taken again.
    pub(super) fn input(&mut self, key: Key, no: InputNo, text: &str, eof: bool) {
        let Some(leader) = self.kept(key).map(|tree| &mut tree.leader) else { return };
        if no.0 <= leader.taken {
            return;
        }
        leader.taken = no.0;
        leader.read.push((no, text.to_owned()));
        let enough = leader.program.reads.is_some_and(|count| leader.read.len() >= count) || eof;
        self.wake_watches(key);
        self.check_inputs(key);
        if enough {
            let ms = 1 + self.random.below(30);
            self.after(ms, Doing::Exit(key, Exit::Code(0)));
        }
    }

    fn term_ms(&self, job: JobId) -> u64 {
        let spec = self.witness.get(&job).and_then(|watched| watched.known.job.spec.as_ref());
        spec.map_or(100, |spec| spec.ladder.term_ms)
    }
}
