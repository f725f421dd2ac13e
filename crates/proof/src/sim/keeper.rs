//! Hosts, and on them the places where attempts live: the truth that no log can argue with.
//!
//! A place has a claim record, perhaps a tree with its keeper, a recording and an exit record. A keeper ends its tree when its
//! lease or its deadline passes, and obeys only the newest claim it has heard of.

use lastword_core::effects::Effect;
use lastword_core::limits::Limit;
use lastword_core::outcome::{Budget, Cause};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt, Rung, Tree};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::OnPartition;
use lastword_core::{AttemptNo, Awake, Epoch};

use super::agent::{Next, Program};
use super::fault::Fault;
use super::world::{Doing, Errand, Hold, World};

/// A machine.
#[derive(Default)]
pub(super) struct Host {
    /// How far its wall clock is off.
    pub(super) skew_ms: i64,
    /// When it booted.
    pub(super) booted_at: u64,
    /// Which boot this is.
    pub(super) boot: u32,
    /// How long it has slept since.
    pub(super) slept_ms: u64,
    /// It sleeps until then.
    pub(super) asleep_until: u64,
    /// It is switched off until then.
    pub(super) down_until: u64,
    /// It never comes back.
    pub(super) gone: bool,
}

impl Host {
    /// Returns its awake clock.
    pub(super) fn awake(&self, now: u64) -> Awake {
        Awake(now.saturating_sub(self.booted_at + self.slept_ms))
    }

    /// Returns the id of the boot it is in.
    pub(super) fn boot_id(&self) -> &'static str {
        boot_id(self.boot)
    }
}

/// Where one attempt of one job lives, on one host.
pub(super) struct Place {
    pub(super) job: usize,
    pub(super) attempt: AttemptNo,
    pub(super) host: usize,
    /// Nothing can be started here any more.
    pub(super) closed: bool,
    pub(super) life: Option<Life>,
    /// What the tree has said, with the offset after it.
    pub(super) recording: Vec<(u64, Signal)>,
    pub(super) exit: Option<Box<Receipt>>,
    /// The newest claim its keeper has heard of.
    epoch: Epoch,
}

/// A tree and its keeper.
pub(super) struct Life {
    pub(super) alive: bool,
    pub(super) keeper: bool,
    /// Nobody holds it, not even a lease: keeper and guard were killed in one blow.
    pub(super) orphan: bool,
    boot: u32,
    launched: Awake,
    lease_until: u64,
    keeps: bool,
    deadline: Option<Awake>,
    program: Program,
    asleep: bool,
    stop: Option<Stopping>,
    told: Vec<u32>,
    no: u32,
    /// When the keeper next looks at its lease, and at its deadline.
    looks: [u64; 2],
}

struct Stopping {
    asked_by: Hold,
    rung: Option<Rung>,
    force: bool,
    why: Option<KeeperStop>,
    run: u32,
}

/// Names a boot by its number. A few names are enough: no two boots that meet share one.
fn boot_id(boot: u32) -> &'static str {
    ["b0", "b1", "b2", "b3"][boot as usize % 4]
}

impl Life {
    fn tree(&self) -> Tree {
        Tree {
            boot: boot_id(self.boot).to_owned(),
            pid: self.no as i32,
            start_ticks: self.launched.0,
            level: Level::Subreaper,
            withheld: None,
        }
    }
}

impl Place {
    pub(super) fn is_alive(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.alive)
    }

    /// The machine is switched off under it.
    pub(super) fn power_off(&mut self) {
        if let Some(life) = &mut self.life {
            life.alive = false;
            life.keeper = false;
        }
    }

    /// The tree is gone and its keeper writes down how.
    fn emptied(&mut self, exit: Option<Exit>, why: Option<KeeperStop>) {
        let Some(life) = &mut self.life else { return };
        life.alive = false;
        let noted = life.stop.as_ref().and_then(|stop| stop.why);
        if life.keeper {
            let receipt = Receipt {
                level: Level::Subreaper,
                exit,
                keeper_stop: why.or(noted),
                ..Receipt::bare(Proof::NoChildren)
            };
            self.exit = Some(Box::new(receipt));
        }
    }
}

impl World {
    fn place(&mut self, hold: Hold, attempt: AttemptNo) -> usize {
        let host = self.processes[hold.process].host;
        let known = |place: &Place| place.job == hold.job && place.attempt == attempt && place.host == host;
        if let Some(no) = self.places.iter().position(known) {
            return no;
        }
        self.places.push(Place {
            job: hold.job,
            attempt,
            host,
            closed: false,
            life: None,
            recording: Vec::new(),
            exit: None,
            epoch: Epoch(0),
        });
        self.places.len() - 1
    }

    /// Carries out an effect.
    pub(super) fn carry(&mut self, errand: Errand) {
        let Errand { hold, effect, lease_until, given_up } = errand;
        let dead = self.processes[hold.process].hand(hold).is_none();
        let host = &self.hosts[self.processes[hold.process].host];
        // Of a sender that died, some effects were on their way already; of a host that is off, none.
        if host.down_until > self.now || (dead && self.random.chance(50)) {
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
        let no = self.place(hold, attempt);
        let place = &mut self.places[no];
        if hold.epoch < place.epoch && !matches!(effect, Effect::Watch { .. } | Effect::Launch { .. }) {
            // A later claim was here: this one has nothing to say any more.
            return self.unclear(hold, effect, given_up);
        }
        place.epoch = place.epoch.max(hold.epoch);
        match &effect {
            Effect::Launch { .. } => self.launch(no, hold, lease_until, given_up),
            Effect::Locate { .. } => self.locate(no, hold, lease_until, given_up),
            Effect::Watch { .. } => self.watch(no, hold, effect, given_up),
            Effect::Stop { cause, force, .. } => {
                let (cause, force) = (*cause, *force);
                self.stop(no, hold, cause, force, effect, given_up);
            }
            _ => self.speak(no, hold, effect, given_up),
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

    fn launch(&mut self, no: usize, hold: Hold, lease_until: u64, given_up: bool) {
        let host = self.places[no].host;
        let (job, attempt) = (self.places[no].job, self.places[no].attempt);
        let spec = self.witness.jobs[job].job.spec.clone();
        let Some(spec) = spec else { return };
        let place = &mut self.places[no];
        if place.life.is_some() {
            if self.plan.guarded {
                return self.unclear(hold, Effect::Launch { attempt }, given_up);
            }
            self.fail("an attempt was launched twice", || format!("attempt {attempt} of job {job}"));
            return;
        }
        let keeps = spec.on_partition == OnPartition::Keep;
        // A keeper that would have to end its tree at once does not start it.
        let too_late = lease_until <= self.now && !keeps;
        let fails = self.random.chance(4);
        if place.closed || too_late || fails {
            place.closed = true;
            let report = Report::LaunchFailed { attempt, error: "no".to_owned(), launch_error: None };
            return self.report(hold, report, given_up);
        }
        let launched = self.hosts[host].awake(self.now);
        let resumed_from = spec.resume.as_ref().map(|conversation| conversation.reference.clone());
        let program = Program::new(self.random.draw(), spec.work.is_agent(), resumed_from);
        let life = Life {
            alive: true,
            keeper: true,
            orphan: false,
            boot: self.hosts[host].boot,
            launched,
            lease_until,
            keeps,
            deadline: None,
            program,
            asleep: false,
            stop: None,
            told: Vec::new(),
            no: no as u32 + 1,
            looks: [0; 2],
        };
        let tree = life.tree();
        self.places[no].life = Some(life);
        self.check_launch(no);
        self.trace.say(self.now, || format!("tree of job {job} attempt {attempt} lives on h{host}"));
        self.report(hold, Report::Launched { attempt, tree, awake: launched }, given_up);
        self.live_on(no);
        self.guard(no);
    }

    fn live_on(&mut self, no: usize) {
        let Some(life) = &mut self.places[no].life else { return };
        let (pause, run) = (life.program.pause_ms(), life.no);
        self.after(pause, Doing::Live(no, run));
    }

    /// The tree does the next thing.
    pub(super) fn tree_lives(&mut self, no: usize, _run: u32) {
        let Some(life) = self.places[no].life.as_mut().filter(|life| life.alive) else { return };
        match life.program.next() {
            Next::Say(signal) => {
                let place = &mut self.places[no];
                let offset = place.recording.len() as u64 * 10 + 10;
                place.recording.push((offset, signal));
                self.rouse_listeners(no);
                self.live_on(no);
            }
            Next::Wait => life.asleep = true,
            Next::Exit(exit) => {
                self.trace.say(self.now, || format!("tree {no} exits with {exit:?}"));
                self.places[no].emptied(Some(exit), None);
                self.rouse_listeners(no);
            }
        }
    }

    /// Tells whoever watches a place that there is something to read.
    pub(super) fn rouse_listeners(&mut self, no: usize) {
        let mut roused = Vec::new();
        for hand in self.processes.iter_mut().flat_map(|process| &mut process.hands) {
            if !hand.listens && hand.watch.is_some_and(|(place, _)| place == no) {
                hand.listens = true;
                roused.push(hand.hold);
            }
        }
        for hold in roused {
            let way = 1 + self.random.below(10);
            self.after(way, Doing::Listen(hold));
        }
    }

    fn locate(&mut self, no: usize, hold: Hold, lease_until: u64, given_up: bool) {
        let boot = self.hosts[self.places[no].host].boot;
        let attempt = self.places[no].attempt;
        let intended = self.intended_boot(hold, attempt);
        let place = &mut self.places[no];
        let found = match &mut place.life {
            _ if place.exit.is_some() => {
                // Whoever finds the end reads the recording first: the end is the last thing to be heard.
                let heard = place.recording.clone();
                let receipt = place.exit.clone();
                for (offset, signal) in heard {
                    self.feed_heard(hold, attempt, offset, signal);
                }
                receipt.map_or(Found::NeverStarted, Found::Ended)
            }
            None => {
                place.closed = true;
                // A claim may be lost with the power: that it never ran can be said only of this boot.
                if intended.is_some_and(|intended| *intended != *boot_id(boot)) {
                    Found::OtherBoot
                } else {
                    Found::NeverStarted
                }
            }
            Some(life) if life.boot != boot => Found::OtherBoot,
            Some(life) if life.keeper => {
                life.lease_until = life.lease_until.max(lease_until);
                Found::Alive { tree: life.tree(), awake: life.launched }
            }
            Some(_) => Found::Vanished(self.sweep_place(no)),
        };
        self.report(hold, Report::Located { attempt, found }, given_up);
    }

    /// Returns the boot in which an attempt was intended, as its owner has it from the log.
    fn intended_boot(&mut self, hold: Hold, attempt: AttemptNo) -> Option<std::sync::Arc<str>> {
        let hand = self.processes[hold.process].hand(hold)?;
        hand.owner.job().attempts.iter().find(|known| known.no == attempt)?.boot.clone()
    }

    /// Kills what can be found of a tree without a keeper.
    fn sweep_place(&mut self, no: usize) -> Box<Receipt> {
        let escapes = self.random.chance(20);
        if let Some(life) = &mut self.places[no].life {
            life.alive &= escapes;
        }
        Box::new(Receipt::bare(Proof::BestEffort))
    }

    fn watch(&mut self, no: usize, hold: Hold, effect: Effect, given_up: bool) {
        if self.places[no].life.is_none() {
            return self.unclear(hold, effect, given_up);
        }
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        if hand.owner.is_gone() {
            return;
        }
        // From the beginning: what was heard before is recognised by its offset.
        hand.watch = Some((no, 0));
        if !hand.listens {
            hand.listens = true;
            self.after(1, Doing::Listen(hold));
        }
    }

    /// An owner reads on in the recording it follows, and at its end learns what became of the tree.
    pub(super) fn listen(&mut self, hold: Hold) {
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        hand.listens = false;
        let Some((no, mut next)) = hand.watch else { return };
        let attempt = self.places[no].attempt;
        while let Some((offset, signal)) = self.places[no].recording.get(next).cloned() {
            let Some(hand) = self.processes[hold.process].hand(hold) else { return };
            if !hand.owner.has_room() {
                hand.listens = true;
                return self.after(100, Doing::Listen(hold));
            }
            next += 1;
            hand.watch = Some((no, next));
            self.feed_heard(hold, attempt, offset, signal);
        }
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        let place = &self.places[no];
        let keeper = place.life.as_ref().is_some_and(|life| life.keeper);
        let receipt = match &place.exit {
            Some(receipt) => receipt.clone(),
            None if keeper => return,
            None => {
                hand.watch = None;
                self.sweep_place(no)
            }
        };
        if let Some(hand) = self.processes[hold.process].hand(hold) {
            hand.watch = None;
        }
        self.report(hold, Report::Emptied { attempt, receipt }, false);
    }

    fn feed_heard(&mut self, hold: Hold, attempt: AttemptNo, offset: u64, signal: Signal) {
        self.trace.say(self.now, || format!("w{} hears at {offset}: {signal:?}", hold.process));
        self.feed(hold, lastword_core::owner::Input::Report(Report::Heard { attempt, offset, signal }));
    }

    fn stop(&mut self, no: usize, hold: Hold, cause: Cause, force: bool, effect: Effect, given_up: bool) {
        let Some(life) = &mut self.places[no].life else { return self.unclear(hold, effect, given_up) };
        if !life.keeper {
            return self.unclear(hold, effect, given_up);
        }
        if !life.alive {
            return;
        }
        // What the keeper notes for the case that the journal never hears of the reason.
        let why = match cause {
            Cause::Limit(Limit::Wall) => Some(KeeperStop::Deadline),
            Cause::Limit(Limit::Stall) => Some(KeeperStop::LocalStall),
            Cause::Limit(Limit::Output) => Some(KeeperStop::LocalBudget(Budget::Output)),
            Cause::Limit(Limit::Turns) => Some(KeeperStop::LocalBudget(Budget::Turns)),
            Cause::Limit(Limit::Tokens) => Some(KeeperStop::LocalBudget(Budget::Tokens)),
            Cause::Limit(Limit::Money) => Some(KeeperStop::LocalBudget(Budget::Money)),
            _ => None,
        };
        let run = life.stop.as_ref().map_or(0, |stop| stop.run + 1);
        let (rung, noted) = life.stop.as_ref().map_or((None, None), |stop| (stop.rung, stop.why));
        life.stop = Some(Stopping { asked_by: hold, rung, force, why: noted.or(why), run });
        let way = 1 + self.random.below(20);
        self.after(way, Doing::Climb(no, run));
    }

    /// A stop climbs its next rung.
    pub(super) fn climb(&mut self, no: usize, run: u32) {
        let Some(life) = self.places[no].life.as_mut().filter(|life| life.alive && life.keeper) else {
            return;
        };
        let Some(stop) = life.stop.as_mut().filter(|stop| stop.run == run) else { return };
        if stop.rung == Some(Rung::Kill) {
            self.places[no].emptied(Some(Exit::Signal(9)), None);
            return self.rouse_listeners(no);
        }
        let rung = match stop.rung {
            _ if stop.force => Rung::Kill,
            None => Rung::Interrupt,
            Some(Rung::Interrupt) => Rung::StdinClosed,
            Some(Rung::StdinClosed) => Rung::Term,
            Some(_) => Rung::Kill,
        };
        stop.rung = Some(rung);
        let asked_by = stop.asked_by;
        let attempt = self.places[no].attempt;
        let obeys = rung != Rung::Kill && self.random.chance(40);
        self.report(asked_by, Report::Climbed { attempt, rung, alive: u32::from(!obeys) }, false);
        if obeys {
            let exit = if rung == Rung::Term { Exit::Signal(15) } else { Exit::Code(0) };
            self.places[no].emptied(Some(exit), None);
            self.rouse_listeners(no);
        } else {
            let grace = 30 + self.random.below(300);
            self.after(grace, Doing::Climb(no, run));
        }
    }

    /// Deadline, input, interrupt and the end of input.
    fn speak(&mut self, no: usize, hold: Hold, effect: Effect, given_up: bool) {
        let Some(life) = &mut self.places[no].life else { return self.unclear(hold, effect, given_up) };
        if !life.alive || !life.keeper {
            return self.unclear(hold, effect, given_up);
        }
        match &effect {
            Effect::Deadline { at, .. } => {
                life.deadline = *at;
                life.looks[1] = 0;
                return self.guard(no);
            }
            Effect::Tell { input, .. } => {
                if !life.told.contains(&input.0) {
                    life.told.push(input.0);
                    life.program.told();
                }
                let input = *input;
                self.report(hold, Report::Told { input }, given_up);
            }
            Effect::Interrupt { .. } => life.program.interrupt(),
            Effect::Close { .. } => life.program.close(),
            _ => {}
        }
        if let Some(life) = self.places[no].life.as_mut().filter(|life| life.asleep) {
            life.asleep = false;
            self.live_on(no);
        }
    }

    /// A keeper looks at its lease and its deadline.
    pub(super) fn guard(&mut self, no: usize) {
        let place = &mut self.places[no];
        let host = &self.hosts[place.host];
        let awake = host.awake(self.now);
        let Some(life) = place.life.as_mut().filter(|life| life.alive && life.keeper) else { return };
        let asleep = host.asleep_until > self.now;
        let over = match life.deadline {
            _ if !life.keeps && life.lease_until <= self.now => Some(KeeperStop::Lease),
            Some(at) if at <= awake && !asleep => Some(KeeperStop::Deadline),
            _ => None,
        };
        if let Some(why) = over {
            self.trace.say(self.now, || format!("keeper {no} ends its tree: {why:?}"));
            self.places[no].emptied(Some(Exit::Signal(9)), Some(why));
            return self.rouse_listeners(no);
        }
        // Extended meanwhile, or slept through: look again when it is due.
        let lease = (!life.keeps).then_some(life.lease_until);
        let deadline =
            life.deadline.map(|at| (self.now + at.0.saturating_sub(awake.0)).max(host.asleep_until));
        let mut waits = [None; 2];
        for (look, due) in [lease, deadline].into_iter().enumerate() {
            if let Some(due) = due.filter(|_| life.looks[look] <= self.now) {
                life.looks[look] = due;
                waits[look] = Some(due - self.now);
            }
        }
        for wait in waits.into_iter().flatten() {
            self.after(wait, Doing::Guard(no));
        }
    }

    /// An owner has renewed: the keepers of its trees may go on, if they still obey it.
    pub(super) fn extend_lease(&mut self, hold: Hold, until: u64) {
        let host = self.processes[hold.process].host;
        let places = self.places.iter_mut().filter(|place| place.job == hold.job && place.host == host);
        for place in places.filter(|place| place.epoch == hold.epoch) {
            if let Some(life) = &mut place.life {
                life.lease_until = life.lease_until.max(until);
            }
        }
    }
}
