//! Processes that own jobs: each registers, renews, claims, and drives the production owner's step for what it holds.

use lastword_core::decide::claim::Claimant;
use lastword_core::effects::Effect;
use lastword_core::life::{Life, Place};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::report::Report;
use lastword_core::{BootTime, Fence, Job};
use lastword_store::{Claimed, Instance, Renew, Renewed};

use super::fault::Fault;
use super::journal::{Answer, Caller, Verb};
use super::process::{Errand, Hand, Hold};
use super::wish::Wish;
use super::world::{BEAT_MS, Doing, LEASE_MS, MARGIN_MS, STOP_MS, TIMEOUT_MS, World};

impl World {
    /// A process comes to life.
    pub(super) fn restart(&mut self, no: usize) {
        let process = &mut self.processes[no];
        let away = self.hosts[process.host].off_ms(self.now) > 0;
        if process.up || away {
            return;
        }
        process.up = true;
        let life = process.life;
        self.trace.say(self.now, || format!("w{no} starts, life {life}"));
        self.beat(no, life);
    }

    /// Renews, and gives every hand the time.
    pub(super) fn beat(&mut self, no: usize, life: u32) {
        let process = &mut self.processes[no];
        if !process.up || process.life != life {
            return;
        }
        process.hands.retain_mut(|hand| {
            hand.idle += u32::from(hand.owner.is_gone());
            hand.idle < 3
        });
        let holds: Vec<Hold> = process.hands.iter().map(|hand| hand.hold).collect();
        if process.calling.is_none() {
            // Its keepers have ended its trees, and others may have ended its life: what it does from here on is another life.
            process.incarnation = process.incarnation.filter(|_| self.now < process.deadline);
            let place = Place::new(&process.host_id.0, self.hosts[process.host].boot_id());
            let (owner, incarnation) = (process.name.clone(), process.incarnation);
            self.process_calls(no, Verb::Renew(Renew { owner, place, incarnation, lease_ms: LEASE_MS }));
        }
        for hold in holds {
            self.feed(hold, Input::Tick);
            self.check_limits(hold);
        }
        let next = BEAT_MS + self.random.below(300);
        self.after(next, Doing::Beat(no, life));
    }

    fn process_calls(&mut self, no: usize, verb: Verb) {
        let life = self.processes[no].life;
        let call = self.call(Caller::Process(no, life), verb);
        self.processes[no].calling = Some((call, self.now));
    }

    /// An answer of the journal reaches its caller, if the caller still waits for it.
    pub(super) fn answered(&mut self, caller: Caller, call: u64, answer: Answer) {
        match caller {
            Caller::Asker(asker) => self.asker_answered(asker, call, answer),
            Caller::Process(no, life) => {
                let process = &mut self.processes[no];
                let current = process.calling.filter(|(waiting, _)| *waiting == call);
                let Some((_, sent)) = current.filter(|_| process.up && process.life == life) else { return };
                process.calling = None;
                self.process_answered(no, sent, answer);
            }
            Caller::Hand(hold) => {
                let Some(hand) = self.processes[hold.process].hand(hold) else { return };
                if hand.call != call {
                    return;
                }
                hand.call = 0;
                let input = match answer {
                    Answer::Loaded(events) => Input::Loaded(events),
                    Answer::Stored(..) => Input::Stored,
                    Answer::Conflict => Input::Conflict,
                    Answer::Fenced => Input::Fenced,
                    _ => Input::Unavailable,
                };
                self.feed(hold, input);
            }
        }
    }

    fn process_answered(&mut self, no: usize, sent: u64, answer: Answer) {
        match answer {
            Answer::Renewed(renewed) => self.renewed(no, sent, renewed),
            Answer::Taken(taken) => {
                for claimed in taken {
                    self.take_up(no, claimed);
                }
            }
            // Over, or replaced, perhaps by a registration of its own that came late: it registers anew at its next beat.
            Answer::Lapsed => self.processes[no].incarnation = None,
            Answer::Lives(_, instance) if instance.settling.is_some() => self.wait_out(no, instance),
            Answer::Lives(lives, _) => self.saw_lives(no, lives),
            // It watches that life, to register when it is over.
            Answer::NameTaken => self.process_calls(no, Verb::Lives),
            _ => {}
        }
    }

    fn renewed(&mut self, no: usize, sent: u64, renewed: Renewed) {
        let process = &mut self.processes[no];
        process.incarnation = Some(renewed.incarnation);
        // The journal stored it later than it was sent, and others see it later still.
        process.deadline = sent + LEASE_MS - STOP_MS;
        self.leases.insert(renewed.incarnation, process.deadline);
        let holds: Vec<Hold> = process.hands.iter().map(|hand| hand.hold).collect();
        for hold in holds {
            if renewed.news.contains(&self.plan.ids[hold.job]) {
                self.feed(hold, Input::News);
            }
        }
        match renewed.settling {
            true => self.take_what_is_alive(no),
            false => self.claim(no),
        }
    }

    /// Asks for its trees that are alive, or else for the lives of others: the journal gives nothing else while it pauses.
    fn take_what_is_alive(&mut self, no: usize) {
        let process = &mut self.processes[no];
        let boot = self.hosts[process.host].boot_id();
        let Some(claimant) = process.claimant(boot) else { return };
        process.claims += 1;
        let claimant = Claimant { boot: Some(boot.into()), ..claimant };
        let host = process.host;
        let here = self.places.iter_mut().filter(|(key, _)| key.host == host);
        let alive = here.filter_map(|(key, place)| place.kept().map(|_| (key.job, key.attempt)));
        let trees = alive.collect();
        let verb = match self.processes[no].claims.is_multiple_of(2) {
            true => Verb::Alive(claimant, trees),
            false => Verb::Lives,
        };
        self.process_calls(no, verb);
    }

    /// Takes in the lives that were read, and ends one that is over.
    fn saw_lives(&mut self, no: usize, mut lives: Vec<Life>) {
        let process = &mut self.processes[no];
        lives.retain(|life| Some(life.incarnation) != process.incarnation);
        process.watch.see(&lives, BootTime(self.now));
        if let Some((life, beat)) = process.watch.over(MARGIN_MS, BootTime(self.now)).pop() {
            self.process_calls(no, Verb::EndLife(life, beat));
        }
    }

    /// Ends the pause of the journal when no lease of an earlier instance can last any more.
    fn wait_out(&mut self, no: usize, instance: Instance) {
        let process = &mut self.processes[no];
        let seen = process.pause.filter(|(seen, _)| *seen == instance);
        let (_, since) = *process.pause.insert(seen.unwrap_or((instance, self.now)));
        if since + LEASE_MS + MARGIN_MS <= self.now {
            self.process_calls(no, Verb::Settle(instance));
        }
    }

    /// Asks in turn for jobs that are ready, for the lives of others, for jobs whose holder is gone, and for jobs it holds without knowing
    /// because an answer got lost.
    fn claim(&mut self, no: usize) {
        let process = &mut self.processes[no];
        let Some(claimant) = process.claimant(self.hosts[process.host].boot_id()) else { return };
        process.claims += 1;
        let verb = match process.claims % 6 {
            1 | 4 => Verb::Ready(claimant),
            2 | 5 => Verb::Lives,
            3 => Verb::Expired(claimant),
            _ => Verb::Mine(claimant.incarnation),
        };
        self.process_calls(no, verb);
    }

    /// Takes what is ready, if it is not waiting for an answer anyway.
    pub(super) fn hint(&mut self, no: usize) {
        let process = &self.processes[no];
        let claimant = process.claimant(self.hosts[process.host].boot_id());
        if let Some(claimant) = claimant.filter(|_| process.up && process.calling.is_none()) {
            self.process_calls(no, Verb::Ready(claimant));
        }
    }

    fn take_up(&mut self, no: usize, claimed: Claimed) {
        let Some(job) = self.plan.ids.iter().position(|id| *id == claimed.job) else { return };
        let process = &self.processes[no];
        let fence: Fence = claimed.fence;
        let Fence { incarnation, epoch, .. } = fence;
        let hold = Hold { process: no, life: process.life, job, incarnation, epoch };
        if process.seen.contains(&hold) {
            // A slot for its idle agent, or what it knows already.
            return self.feed(hold, Input::News);
        }
        let folded = match Job::fold(claimed.job, &claimed.events) {
            Ok(folded) => folded,
            Err(illegal) => return self.fail("log does not fold", || illegal.to_string()),
        };
        self.trace.say(self.now, || format!("w{no} takes job {job}, epoch {}", fence.epoch));
        self.processes[no].seen.push(hold);
        // It was told to go down meanwhile: what it has not started goes back.
        if folded.open_attempt().is_none() && self.unlucky(4) {
            return self.ask_as_owner(job, Wish::Release(fence));
        }
        let now = self.clock(self.processes[no].host);
        let boot = self.hosts[self.processes[no].host].boot_id().into();
        let owner = Owner::new(folded, fence, self.processes[no].host_id.clone(), boot, now);
        let hand = Hand { hold, owner, call: 0, watch: None, listens: false, idle: 0 };
        self.processes[no].hands.push(hand);
        self.feed(hold, Input::Tick);
    }

    /// Gives an input to the owner's step, and does what it wants done.
    pub(super) fn feed(&mut self, hold: Hold, input: Input) {
        let now = self.clock(self.processes[hold.process].host);
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        let was_gone = hand.owner.is_gone();
        let fenced = matches!(input, Input::Fenced);
        let outputs = hand.owner.step(input, now);
        let gone = hand.owner.is_gone();
        if fenced && !gone {
            return self.fail("an owner that was fenced goes on", || format!("{outputs:?} by {hold:?}"));
        }
        if gone && !was_gone {
            hand.watch = None;
        }
        for output in outputs {
            match output {
                Output::Append(append) => {
                    let call = self.call(Caller::Hand(hold), Verb::Append(append));
                    self.set_call(hold, call);
                }
                Output::Load { after } => {
                    let job = self.plan.ids[hold.job];
                    let call = self.call(Caller::Hand(hold), Verb::Load { job, after });
                    self.set_call(hold, call);
                }
                Output::Do(effect) if gone => {
                    self.fail("an owner that let go goes on", || format!("{effect:?} by {hold:?}"));
                }
                Output::Do(effect) => self.send(hold, effect),
                Output::LetGo { late } => self.let_go(hold, late),
                Output::Broken(illegal) => {
                    self.fail("an owner found its log broken", || illegal.to_string());
                }
            }
        }
    }

    fn set_call(&mut self, hold: Hold, call: u64) {
        if let Some(hand) = self.processes[hold.process].hand(hold) {
            hand.call = call;
        }
    }

    fn let_go(&mut self, hold: Hold, late: Vec<String>) {
        self.trace.say(self.now, || format!("{hold:?} lets go"));
        let fence = self.processes[hold.process].hand(hold).map(|hand| hand.owner.fence().clone());
        if let Some(fence) = fence {
            self.try_stale_write(hold.job, &fence);
        }
        for what in late.into_iter().take(2) {
            self.ask_as_owner(hold.job, Wish::Late(hold.epoch, what));
        }
    }

    /// Sends an effect to the keeper.
    fn send(&mut self, hold: Hold, effect: Effect) {
        self.check_effect(hold, &effect);
        self.trace.say(self.now, || format!("w{} wants {effect:?} for job {}", hold.process, hold.job));
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        let under = hand.owner.fence().incarnation;
        let unclear = self.unlucky(4);
        if unclear {
            let wait = 50 + self.random.below(TIMEOUT_MS);
            let report = Box::new(Report::Unclear(effect.clone()));
            self.after(wait, Doing::Tell(hold, report, Some(Fault::EffectUnclear)));
            if self.random.chance(50) {
                return;
            }
        }
        let way = 1 + self.random.below(if unclear { 2 * TIMEOUT_MS } else { 20 });
        self.after(way, Doing::Carry(Box::new(Errand { hold, effect, under, given_up: unclear })));
    }

    /// A report reaches an owner.
    pub(super) fn told(&mut self, hold: Hold, report: Report, fault: Option<Fault>) {
        self.trace.note(0x7e11 + hold.process as u64);
        if self.processes[hold.process].hand(hold).is_none() {
            return;
        }
        // A report that is late or comes again strikes when it comes.
        if let Some(fault) = fault {
            self.struck(fault, hold.job);
        }
        self.trace.say(self.now, || format!("w{} hears {report:?}", hold.process));
        self.feed(hold, Input::Report(report));
    }

    /// An owner hears that there may be a new write to a job.
    pub(super) fn poke(&mut self, no: usize, job: usize) {
        let process = &self.processes[no];
        let holds: Vec<Hold> = process.hands.iter().map(|hand| hand.hold).collect();
        for hold in holds.into_iter().filter(|hold| hold.job == job) {
            self.feed(hold, Input::News);
        }
    }
}
