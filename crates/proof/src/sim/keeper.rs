//! Keepers at work: effects reach the place of an attempt, its tree does its work, and reports go back.
//!
//! A keeper ends its tree when its lease or its deadline passes, unless the job is to go on without a lease.

use lastword_core::effects::Effect;
use lastword_core::outcome::Cause;
use lastword_core::receipt::{Exit, KeeperStop, Proof, Receipt, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::OnPartition;
use lastword_core::{AttemptNo, Incarnation, Job};

use super::agent::{Leader, Next, Program};
use super::fault::Fault;
use super::process::{Errand, Hold};
use super::world::{Doing, World};
use crate::world::place::{Key, Place, Tree, keeper_stop};

/// The rungs of a stop.
const LADDER: &[Rung] = &[Rung::Interrupt, Rung::StdinClosed, Rung::Term, Rung::Kill];

impl World {
    fn place(&mut self, key: Key) -> &mut Place<Leader> {
        self.places.entry(key).or_default()
    }

    /// Returns the tree of a place that lives and has a shim.
    fn kept(&mut self, key: Key) -> Option<&mut Tree<Leader>> {
        self.places.get_mut(&key)?.kept()
    }

    /// Carries out an effect.
    pub(super) fn carry(&mut self, errand: Errand) {
        let Errand { hold, effect, under, given_up } = errand;
        let dead = self.processes[hold.process].hand(hold).is_none();
        let host = &self.hosts[self.processes[hold.process].host];
        // Of a sender that died, some effects were on their way already; of a host that is off, none.
        if host.off_ms(self.now) > 0 || (dead && self.random.chance(50)) {
            return;
        }
        self.trace.note(0xe44ec7);
        let (Effect::Launch { attempt }
        | Effect::Locate { attempt }
        | Effect::Watch { attempt }
        | Effect::Stop { attempt, .. }
        | Effect::Deadline { attempt, .. }
        | Effect::Tell { attempt, .. }
        | Effect::Interrupt { attempt, .. }
        | Effect::Hold { attempt, .. }
        | Effect::Close { attempt }) = effect;
        let key = Key { job: self.plan.ids[hold.job], attempt, host: self.processes[hold.process].host };
        let obeyed = self.place(key).obeys(hold.epoch);
        // A keeper may have heard of a claim that is lost. Looking needs no keeper.
        let looks = self.witness.jobs[hold.job].has_lost && matches!(effect, Effect::Locate { .. });
        if !obeyed && !looks && !matches!(effect, Effect::Watch { .. } | Effect::Launch { .. }) {
            // A later claim was here: this one has nothing to say any more.
            return self.unclear(hold, effect, given_up);
        }
        match &effect {
            Effect::Launch { .. } => self.launch(key, hold, under, given_up),
            Effect::Locate { .. } => self.locate(key, hold, obeyed.then_some(under), given_up),
            Effect::Watch { .. } => self.watch(key, hold, effect, given_up),
            Effect::Stop { cause, force, .. } => {
                let (cause, force) = (*cause, *force);
                self.stop(key, hold, cause, force, effect, given_up);
            }
            _ => self.speak(key, hold, effect, given_up),
        }
    }

    fn unclear(&mut self, hold: Hold, effect: Effect, given_up: bool) {
        if !given_up {
            let wait = 100 + self.random.below(100);
            self.after(wait, Doing::Tell(hold, Box::new(Report::Unclear(effect)), None));
        }
    }

    /// Sends a report, which may be late, or come twice.
    fn report(&mut self, hold: Hold, report: Report, given_up: bool) {
        if given_up && self.random.chance(50) {
            return;
        }
        let mut way = 1 + self.random.below(20);
        let late = self.unlucky(4).then_some(Fault::ReportLate);
        if late.is_some() {
            way += self.random.below(3_000);
        }
        if self.unlucky(4) {
            let again = way + self.random.below(1_000);
            self.after(again, Doing::Tell(hold, Box::new(report.clone()), Some(Fault::ReportTwice)));
        }
        self.after(way, Doing::Tell(hold, Box::new(report), late));
    }

    fn launch(&mut self, key: Key, hold: Hold, under: Incarnation, given_up: bool) {
        let Key { attempt, host, .. } = key;
        let Some(spec) = self.witness.jobs[hold.job].known.job.spec.clone() else { return };
        if self.place(key).tree.is_some() {
            // It was launched before, and that is lost: what became of it is the attempt.
            if self.witness.jobs[hold.job].has_lost {
                return self.locate(key, hold, Some(under), given_up);
            }
            if self.plan.guarded {
                return self.unclear(hold, Effect::Launch { attempt }, given_up);
            }
            return self.fail("an attempt was launched twice", || format!("{key:?}"));
        }
        let keeps = spec.on_partition == OnPartition::Keep;
        // A keeper that would have to end its tree at once does not start it.
        let lease_until = self.leases.get(&under).copied().unwrap_or(0);
        let too_late = lease_until <= self.now && !keeps;
        let fails = self.random.chance(4);
        if self.place(key).closed || too_late || fails {
            self.place(key).launch_failed();
            let report = Report::LaunchFailed { attempt, error: "no".to_owned(), launch_error: None };
            return self.report(hold, report, given_up);
        }
        let resumed_from = spec.resume.as_ref().map(|conversation| conversation.reference.clone());
        let program = Program::new(self.random.draw(), spec.work.is_agent(), resumed_from);
        let pid = self.places.len() as i32;
        let mut tree = Tree::new(&self.hosts[host], self.now, pid, Leader::new(program));
        (tree.lease_until, tree.leader.under) = ((!keeps).then_some(lease_until), Some(under));
        let awake = tree.launched;
        let tree = self.place(key).launch(hold.epoch, tree);
        self.check_launch(hold.job, key);
        self.trace.say(self.now, || format!("tree of job {} attempt {attempt} lives on h{host}", hold.job));
        self.report(hold, Report::Launched { attempt, tree, awake }, given_up);
        self.live_on(key);
        self.look_at_clock(key);
    }

    fn live_on(&mut self, key: Key) {
        let Some(tree) = self.place(key).tree.as_mut() else { return };
        let pause = tree.leader.program.pause_ms();
        self.after(pause, Doing::Live(key));
    }

    /// The tree does the next thing.
    pub(super) fn tree_lives(&mut self, key: Key) {
        let Some(tree) = self.place(key).tree.as_mut().filter(|tree| tree.alive) else { return };
        let leader = &mut tree.leader;
        match leader.program.next() {
            Next::Say(signal) => {
                let offset = leader.recording.len() as u64 * 10 + 10;
                leader.recording.push((offset, signal));
                self.rouse_listeners(key);
                self.live_on(key);
            }
            Next::Wait => leader.asleep = true,
            Next::Exit(exit) => self.exit(key, Some(exit), None),
        }
    }

    /// The last process of a tree is gone, by itself or because its keeper ended it, and its shim records that.
    pub(super) fn exit(&mut self, key: Key, exit: Option<Exit>, why: Option<KeeperStop>) {
        if self.kept(key).is_some() {
            self.emptied(key, exit, why);
        }
    }

    fn emptied(&mut self, key: Key, exit: Option<Exit>, why: Option<KeeperStop>) {
        self.trace.say(self.now, || format!("the tree of {key:?} is empty: {exit:?}, {why:?}"));
        let (now, at) = (self.now, self.clock(key.host));
        self.place(key).emptied(exit, why, now, at);
        self.rouse_listeners(key);
    }

    /// A guard has ended the tree of its dead shim.
    pub(super) fn guard_ends(&mut self, key: Key) {
        let (now, at) = (self.now, self.clock(key.host));
        if self.place(key).guard_ends(now, at) {
            self.rouse_listeners(key);
        }
    }

    /// Tells the owners that watch a place that there is something to read.
    pub(super) fn rouse_listeners(&mut self, key: Key) {
        let mut roused = Vec::new();
        for hand in self.processes.iter_mut().flat_map(|process| &mut process.hands) {
            if !hand.listens && hand.watch.is_some_and(|(place, _)| place == key) {
                hand.listens = true;
                roused.push(hand.hold);
            }
        }
        for hold in roused {
            let way = 1 + self.random.below(10);
            self.after(way, Doing::Listen(hold));
        }
    }

    /// Finds out what became of an attempt. A tree that is alive is adopted, if its keeper obeys.
    fn locate(&mut self, key: Key, hold: Hold, under: Option<Incarnation>, given_up: bool) {
        let job = self.log_of(hold);
        let found = self.find(key, &job);
        match &found {
            // A recording is read before its end is believed: the end is the last thing to be heard.
            Found::Ended(_) => {
                let recording = self.place(key).tree.as_ref().map(|tree| tree.leader.recording.clone());
                for (offset, signal) in recording.unwrap_or_default() {
                    self.feed_heard(hold, key.attempt, offset, signal);
                }
            }
            Found::Alive { .. } => {
                if let Some(under) = under {
                    self.adopt(key, under);
                }
            }
            _ => {}
        }
        self.report(hold, Report::Located { attempt: key.attempt, found }, given_up);
    }

    /// Returns the job as its owner has it from the log, or as it is durable if that owner is gone.
    fn log_of(&mut self, hold: Hold) -> Job {
        let owner = self.processes[hold.process].hand(hold).map(|hand| hand.owner.job().clone());
        owner.unwrap_or_else(|| self.witness.jobs[hold.job].known.job.clone())
    }

    fn find(&mut self, key: Key, job: &Job) -> Found {
        let escapes = self.random.chance(20);
        let found =
            self.places.entry(key).or_default().locate(job, key.attempt, &self.hosts[key.host], escapes);
        let keeps = job.spec.as_ref().is_some_and(|spec| spec.on_partition == OnPartition::Keep);
        match found {
            // The other boot may be that of a host whose clone this is. Its life is over, which proves it by time.
            Found::OtherBoot if !keeps => Found::Ended(Box::new(Receipt::bare(Proof::LeaseSelfFenced))),
            found => found,
        }
    }

    fn watch(&mut self, key: Key, hold: Hold, effect: Effect, given_up: bool) {
        if self.place(key).tree.is_none() {
            return self.unclear(hold, effect, given_up);
        }
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        if hand.owner.is_gone() {
            return;
        }
        // From the beginning: what was heard before is recognised by its offset.
        hand.watch = Some((key, 0));
        if !hand.listens {
            hand.listens = true;
            self.after(1, Doing::Listen(hold));
        }
    }

    /// An owner reads on in the recording it follows, and at its end learns what became of the tree.
    pub(super) fn listen(&mut self, hold: Hold) {
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        hand.listens = false;
        let Some((key, mut next)) = hand.watch else { return };
        while let Some((offset, signal)) = self.heard(key, next) {
            let Some(hand) = self.processes[hold.process].hand(hold) else { return };
            if !hand.owner.has_room() {
                hand.listens = true;
                return self.after(100, Doing::Listen(hold));
            }
            next += 1;
            hand.watch = Some((key, next));
            self.feed_heard(hold, key.attempt, offset, signal);
        }
        let job = self.log_of(hold);
        let receipt = match self.find(key, &job) {
            Found::Ended(receipt) | Found::Vanished(receipt) => receipt,
            _ => return,
        };
        if let Some(hand) = self.processes[hold.process].hand(hold) {
            hand.watch = None;
        }
        self.report(hold, Report::Emptied { attempt: key.attempt, receipt }, false);
    }

    fn heard(&self, key: Key, no: usize) -> Option<(u64, Signal)> {
        self.places.get(&key)?.tree.as_ref()?.leader.recording.get(no).cloned()
    }

    fn feed_heard(&mut self, hold: Hold, attempt: AttemptNo, offset: u64, signal: Signal) {
        self.trace.say(self.now, || format!("w{} hears at {offset}: {signal:?}", hold.process));
        self.feed(hold, lastword_core::owner::Input::Report(Report::Heard { attempt, offset, signal }));
    }

    fn stop(&mut self, key: Key, hold: Hold, cause: Cause, force: bool, effect: Effect, given_up: bool) {
        let Some(tree) = self.place(key).tree.as_mut() else {
            return self.unclear(hold, effect, given_up);
        };
        if tree.gone_at.is_some() && !tree.alive {
            return;
        }
        if !tree.shim {
            return self.unclear(hold, effect, given_up);
        }
        tree.leader.stopped_by = Some(hold);
        // What the keeper notes for the case that the journal never hears of the reason.
        let why = matches!(cause, Cause::Limit(_)).then(|| keeper_stop(cause));
        if let Some(run) = self.place(key).stop(why, force) {
            let way = 1 + self.random.below(20);
            self.after(way, Doing::Climb(key, run));
        }
    }

    /// A stop climbs its next rung.
    pub(super) fn climb(&mut self, key: Key, run: u32) {
        let Some(rung) = self.place(key).climb(run, LADDER) else { return };
        let obeys = rung != Rung::Kill && self.random.chance(40);
        let stopped_by = self.kept(key).and_then(|tree| tree.leader.stopped_by);
        if let Some(hold) = stopped_by {
            let report = Report::Climbed { attempt: key.attempt, rung, alive: u32::from(!obeys) };
            self.report(hold, report, false);
        }
        let grace = 30 + self.random.below(300);
        match rung {
            Rung::Kill => self.after(grace, Doing::Exit(key, Exit::Signal(9))),
            Rung::Term if obeys => self.exit(key, Some(Exit::Signal(15)), None),
            _ if obeys => self.exit(key, Some(Exit::Code(0)), None),
            _ => self.after(grace, Doing::Climb(key, run)),
        }
    }

    /// Deadline, input, interrupt and the end of input.
    fn speak(&mut self, key: Key, hold: Hold, effect: Effect, given_up: bool) {
        let Some(tree) = self.kept(key) else { return self.unclear(hold, effect, given_up) };
        let leader = &mut tree.leader;
        match &effect {
            Effect::Deadline { at, .. } => {
                leader.looks[1] = 0;
                tree.deadline = *at;
                return self.look_at_clock(key);
            }
            Effect::Tell { input, .. } => {
                if !leader.told.contains(&input.0) {
                    leader.told.push(input.0);
                    leader.program.told();
                }
                let input = *input;
                self.report(hold, Report::Told { input }, given_up);
            }
            Effect::Interrupt { .. } => leader.program.interrupt(),
            Effect::Close { .. } => leader.program.close(),
            _ => {}
        }
        if let Some(tree) = self.kept(key).filter(|tree| tree.leader.asleep) {
            tree.leader.asleep = false;
            self.live_on(key);
        }
    }

    /// A keeper looks at its lease and its deadline.
    pub(super) fn look_at_clock(&mut self, key: Key) {
        let (now, host) = (self.now, &self.hosts[key.host]);
        let (awake, asleep_until) = (host.awake(now), host.asleep_until);
        let (leases, places) = (&self.leases, &mut self.places);
        let tree = places.entry(key).or_default().tree.as_mut().filter(|tree| tree.alive && tree.is_kept());
        let Some(tree) = tree else { return };
        // The timer has ended: whether there is a later deadline stands in the lease file of the life.
        if tree.lease_until.is_some_and(|until| until <= now) {
            tree.lease_until = tree.leader.under.map(|life| leases.get(&life).copied().unwrap_or(0));
        }
        let deadline = tree.deadline.filter(|_| tree.shim);
        let over = match deadline {
            // What sleeps longer than its lease is ended before it can act: by the shim, or by the guard of a dead one.
            _ if tree.lease_until.is_some_and(|until| until <= now) => Some(KeeperStop::Lease),
            Some(at) if at <= awake && asleep_until <= now => Some(KeeperStop::Deadline),
            _ => None,
        };
        if over.is_some() {
            return self.emptied(key, Some(Exit::Signal(9)), over);
        }
        // Extended meanwhile, or slept through: look again when it is due.
        let deadline = deadline.map(|at| (now + at.0.saturating_sub(awake.0)).max(asleep_until));
        let mut waits = [None; 2];
        for (look, due) in [tree.lease_until, deadline].into_iter().enumerate() {
            if let Some(due) = due.filter(|_| tree.leader.looks[look] <= now) {
                tree.leader.looks[look] = due;
                waits[look] = Some(due - now);
            }
        }
        for wait in waits.into_iter().flatten() {
            self.after(wait, Doing::LookAtClock(key));
        }
    }

    /// A later life of the owner has found the tree: it lives under that one's lease from here on.
    fn adopt(&mut self, key: Key, under: Incarnation) {
        let until = self.leases.get(&under).copied().unwrap_or(0);
        let tree = self.place(key).tree.as_mut();
        if let Some(tree) = tree.filter(|tree| tree.lease_until.is_some()) {
            tree.leader.under = Some(under);
            tree.lease_until = Some(until);
        }
        self.look_at_clock(key);
    }
}
